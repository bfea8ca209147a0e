"""The record format of simple-evals: ``EVAL_MODEL_TIME_allresults.json``, or the report ``EVAL_MODEL_TIME.html``.

The first has the conversation of each answer. The verdict is in the HTML of its report alone, or in the metadata of
examples: simple-evals keeps no table of scores.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from meta_eval.base.hashing import hash_json
from meta_eval.base.inputs import describe_error, format_json
from meta_eval.pack.records.log_entries import read_number, to_number
from meta_eval.sockets import (
    SURE,
    DataError,
    FoundLog,
    LogEntry,
    LogFormat,
    LoggedTask,
    Place,
    RecordedDoc,
    SourceError,
    find_logs,
    peek_log,
    read_log,
    read_regular,
    record_answer,
)

# The names of simple-evals' evals. What follows in a file's name is the model, and the time.
_EVALS = (
    "healthbench_consensus", "healthbench_hard", "healthbench_meta", "healthbench", "browsecomp", "simpleqa",
    "humaneval", "math", "mmlu", "gpqa", "mgsm", "drop",
)  # fmt: skip
_NAME = re.compile(
    rf"(?P<eval>{'|'.join(_EVALS)})_(?P<model>.+?)(?:_(?P<time>\d{{8}}_\d{{6}}))?(?:_DEBUG)?(?:_allresults)?", re.DOTALL
)
_WHOLE = "_allresults"

# The lines of a report. The last of each counts: those before it may be of the model's own text.
_MESSAGE = re.compile(r'<div class="message (\w+)">')
_EXAMPLE = "<h3>Prompt conversation</h3>"
_SCORE = re.compile(r"<b>Score</b></td>\s*<td>([^<]*)</td>")
_MOST_BYTES = 2**29

_LINE = re.compile(r"<p>(Correct Answer|Extracted Answer|Score): ")


class SimpleFormat(LogFormat):
    """Results of simple-evals. A file is a task."""

    name = "simple_evals"
    reads = "results of simple-evals (*_allresults.json, or reports in HTML)"

    def detect(self, place: Place) -> float:
        return SURE if find_results(place) else 0

    def list_logs(self, place: Place) -> Sequence[FoundLog]:
        files = find_results(place)
        named = [(file, *split_name(file)) for file in files]
        return [FoundLog(task, partial(_read_task, place, file, files), time or "") for file, task, _, time in named]


def find_results(place: Place) -> dict[str, Path]:
    """The files of simple-evals of a place. A report in HTML is read where its results are not beside it."""
    files = find_logs(place, is_simple_results)
    stems = {name.removesuffix(f"{_WHOLE}.json") for name in files if name.endswith(".json")}
    return {name: path for name, path in files.items() if path.suffix != ".html" or name[:-5] not in stems}


def is_simple_results(path: Path) -> bool:
    """Whether a file is of simple-evals: by how it begins."""
    if path.suffix not in (".json", ".html"):
        return False
    start = b"".join(peek_log(path).split())
    if path.suffix == ".html":
        return b".message.assistant" in start and b"<h1>Metrics</h1>" in start
    # A benchmark with many metrics has its reports far behind.
    is_named = path.stem.endswith(_WHOLE)
    return start.startswith(b'{"score":') and b'"metrics":{' in start and (is_named or b'"htmls":[' in start)


def split_name(file: str) -> tuple[str, str | None, str | None]:
    """The eval, the model and the time in a file's name; the whole name where it has another form."""
    stem = Path(file).stem
    match = _NAME.fullmatch(stem)
    if match is None:
        return stem.removesuffix("_allresults"), None, None
    time = match["time"]
    if time is not None:
        time = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[9:11]}:{time[11:13]}:{time[13:15]}"
    return match["eval"], match["model"], time


def _read_task(place: Place, file: str, files: Mapping[str, Path]) -> LoggedTask:
    path = files[file]
    examples, score = read_html(path) if path.suffix == ".html" else read_simple_results(path)
    if not examples:
        raise SourceError("holds no conversations", where=str(path), hint="Use the *_allresults.json of a finished run")
    task, model, time = split_name(file)
    seen: dict[str, int] = {}
    answers = [
        _read_answer(convo, report, example, seen, f"{path}, example {number}")
        for number, (convo, report, example) in enumerate(examples)
    ]
    return LoggedTask(
        name=task,
        answers=answers,
        harness="simple_evals",
        model=model,
        time=time,
        file=file if place.path is not None and place.path.is_dir() else None,
        scores={} if score is None else {"score": score},
        rounding=0.51e-3,  # of reports in HTML
        grader=f"simple_evals {task}",
        warnings=[] if model else ["its file has another name than EVAL_MODEL_TIME_allresults: the model is unknown"],
    )


def read_simple_results(path: Path) -> tuple[list[tuple[Any, dict[str, str], Any]], float | None]:
    """The conversation, the report and the metadata of each example, and the mean score.

    Raises:
        SourceError, DataError: The file is damaged.
    """
    log = read_log(path)
    htmls, convos = log.find_list("htmls"), log.find_list("convos")
    examples = log.find_entry("metadata").find_list("example_level_metadata") if "metadata" in log else []
    for name, others in (("htmls", htmls), ("example_level_metadata", examples)):
        if others and len(others) != len(convos):
            raise DataError(f"has {len(convos)} conversations and {len(others)} {name}", where=log.where)
    reports = [read_report(report, f"{path}, example {number}") for number, report in enumerate(htmls)]
    read = list(zip(convos, reports or [{}] * len(convos), examples or [None] * len(convos), strict=True))
    return read, log.find_number("score")


def read_html(path: Path) -> tuple[list[tuple[Any, dict[str, str], Any]], float | None]:
    """The same of a report in HTML, which has no metadata.

    Raises:
        SourceError: It cannot be read, or is cut off.
    """
    try:
        text = read_regular(path, limit=_MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise SourceError(f"cannot be read: {describe_error(error)}", where=str(path)) from None
    if "</html>" not in text[-100:]:
        raise SourceError("is cut off", where=str(path), hint="Use the report of a finished run")
    head, *parts = text.split(_EXAMPLE)
    read = []
    for number, part in enumerate(parts):
        messages = _find_elements(part, _MESSAGE, "<pre>", "</pre>")
        convo = [{"role": role, "content": content} for role, content in messages]
        read.append((convo, read_report(part, f"{path}, example {number}"), None))
    score = _SCORE.search(head)
    return read, None if score is None else read_number(score[1])


def read_report(report: object, where: str) -> dict[str, str]:
    """The correct answer, the extracted answer and the score of an example's report.

    Raises:
        DataError: It is no text.
    """
    if not isinstance(report, str):
        raise DataError("the report of an example is no text", where=where)
    return {name: value.strip() for name, value in _find_elements(report, _LINE, "", "</p>")}


def _find_elements(text: str, opening: re.Pattern[str], start: str, end: str) -> Iterator[tuple[str, str]]:
    """What stands in an opening, and the text between the next ``start`` and ``end`` behind it, in linear time.

    A pattern of all three would search for a missing end behind each opening.
    """
    at = 0
    while match := opening.search(text, at):
        begin = text.find(start, match.end())
        at = text.find(end, begin) if begin >= 0 else -1
        if at < 0:
            return
        yield match[1], html.unescape(text[begin + len(start) : at])


def _read_answer(
    convo: object, report: Mapping[str, str], example: Any, seen: dict[str, int], where: str
) -> RecordedDoc:
    if not isinstance(convo, list) or not convo:
        raise DataError("has no conversation", where=where)
    messages = [LogEntry.of(message, where) for message in convo]
    said = [{"role": message.text("role"), "content": message.tree.get("content") or ""} for message in messages]
    *sent, last = said if said[-1]["role"] == "assistant" else [*said, {"role": "assistant", "content": ""}]
    gold = report.get("Correct Answer", "")
    gold = "" if gold == "None" else gold
    extracted = report.get("Extracted Answer")
    query = sent[-1]["content"] if len(sent) == 1 else sent
    key = hash_json([sent, gold])
    repeat = seen[key] = seen.get(key, -1) + 1
    answer = last["content"]
    return record_answer(
        key=key,
        repeat=repeat,
        question={"query": query if isinstance(query, str) else format_json(query)},
        gold=gold,
        prompt=sent or None,
        answer=answer if isinstance(answer, str) else format_json(answer),
        verdicts=_read_verdict(report, example),
        extracted="" if extracted == "None" else extracted,
    )


def _read_verdict(report: Mapping[str, str], example: Any) -> dict[str, float]:
    """The score of an example: of its metadata, else of its report."""
    number = to_number(example.get("score")) if isinstance(example, dict) else None
    if number is None:
        text = report.get("Score", "")
        number = {"True": 1.0, "False": 0.0}[text] if text in ("True", "False") else read_number(text)
    return {} if number is None else {"score": number}
