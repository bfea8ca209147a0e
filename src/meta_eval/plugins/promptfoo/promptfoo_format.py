"""The record format of promptfoo's results: `promptfoo eval -o results.json`, or ``.jsonl``.

A file holds the product of tests, prompts and providers. A provider is a run, a prompt is a task, a test is a doc.
Equal tests are several answers to one doc, as with `--repeat`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.hashing import hash_json
from meta_eval.base.inputs import format_json
from meta_eval.base.secrets import hide_secrets
from meta_eval.pack.records.log_entries import HINT, advising, parse_log, read_log_lines
from meta_eval.pack.records.log_format import choose_by_model
from meta_eval.sockets import (
    SURE,
    FoundLog,
    LogEntry,
    LoggedTask,
    LogRecord,
    Place,
    Record,
    RecordedDoc,
    RecordFormat,
    SourceError,
    find_logs,
    peek_log,
    read_log,
    record_answer,
)

# What promptfoo says of a result that is no verdict: the provider failed.
_ERROR = 2

# lm-eval's names of settings of a provider.
_SETTINGS = {
    "temperature": "temperature", "max_tokens": "max_gen_toks", "max_completion_tokens": "max_gen_toks",
    "top_p": "top_p", "seed": "seed",
}  # fmt: skip

# What else of its configuration changes what a model was asked.
_ASKED = (
    "systemPrompt", "system_prompt", "instructions", "tools", "tool_choice", "functions", "function_call",
    "response_format", "reasoning", "reasoning_effort", "thinking", "verbosity", "max_output_tokens", "top_k", "stop",
    "frequency_penalty", "presence_penalty", "passthrough",
)  # fmt: skip

# What grades, beside the assertions of each test.
_GRADED = {
    "judge": "defaultTest.options.provider", "rubric": "defaultTest.options.rubricPrompt",
    "transform": "defaultTest.options.transform",
}  # fmt: skip


@dataclass(slots=True)
class _Provider:
    """A provider's results in a file."""

    model: str
    file: str | None
    time: str | None
    rows: list[LogEntry] = field(default_factory=list)
    generation: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] | None = None
    grader_settings: Mapping[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)


class PromptfooFormat(RecordFormat):
    """Results of promptfoo. A prompt is a task."""

    name = "promptfoo"
    reads = "results of promptfoo (`promptfoo eval -o results.json`)"
    settings: ClassVar[Mapping[str, str]] = {
        **{theirs: f"config.providers.config.{name}" for name, theirs in _SETTINGS.items() if name != "seed"},
        **{name: f"config.providers.config.{name}" for name in _ASKED},
    }
    grader_settings: ClassVar[Mapping[str, str]] = {name: f"config.{place}" for name, place in _GRADED.items()}

    def detect(self, place: Place) -> float:
        return SURE if find_logs(place, is_promptfoo_results) else 0

    @advising()
    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:  # noqa: ARG002
        return _make_record(place, choose_by_model(_read_providers(place), run, place.name))

    @advising()
    def open_runs(self, place: Place) -> Sequence[Record]:
        found = _read_providers(place)
        if len({one.model for one in found}) > 1:
            return [self.open_run(place, None, ())]
        return [_make_record(place, one) for one in found]


def is_promptfoo_results(path: Path) -> bool:
    """Whether a file is of promptfoo: by how it begins."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    start = b"".join(peek_log(path).split())
    if path.suffix == ".jsonl":
        return start.startswith(b"{") and b'"promptIdx":' in start and b'"testIdx":' in start
    heads = (b'{"evalId":', b'{"results":{"version":', b'{"results":{"timestamp":', b'{"version":')
    return start.startswith(heads) and b'"results":' in start and b'"status":' not in start[:200]


def _read_providers(place: Place) -> list[_Provider]:
    """The results of a place by file and provider.

    Raises:
        SourceError, DataError: A file cannot be read.
    """
    found: list[_Provider] = []
    is_folder = place.path is not None and place.path.is_dir()
    for file, path in find_logs(place, is_promptfoo_results).items():
        rows, summary, config = _read_file(path)
        providers: dict[str, _Provider] = {}
        for row in rows:
            name = _name_provider(row)
            time = _read_time(summary)
            provider = providers.setdefault(name, _Provider(name, file if is_folder else None, time))
            provider.rows.append(row)
        for provider in providers.values():
            own = _find_config(config, provider.rows[0])
            if own is not None:
                provider.generation = _read_generation(own)
                provider.settings = own.find_settings({name: name for name in _ASKED})
            provider.grader_settings = config.find_settings(_GRADED)
            provider.rates = _read_rates(summary, provider)
        found += providers.values()
    if not found:
        raise SourceError("holds no result of promptfoo", where=place.name, hint=HINT)
    return found


def _read_file(path: Path) -> tuple[list[LogEntry], LogEntry, LogEntry]:
    """The results of a file, its summary, and its configuration."""
    if path.suffix == ".jsonl":
        empty = LogEntry({}, str(path))
        return list(read_log_lines(path)), empty, empty
    log = read_log(path)
    summary = log.find_entry("results") if isinstance(log.tree.get("results"), dict) else log
    version = summary.find_count("version")
    if version is not None and not 1 <= version <= 3:
        raise SourceError(
            f"is of version {version} of promptfoo's results, and 1 to 3 are read", where=str(path),
            hint="Export it again with `promptfoo export`",
        )  # fmt: skip
    rows = summary.find_entries("results")
    if not rows:
        raise SourceError(
            "holds no results: its run still writes, or had no test", where=str(path),
            hint="Use the file of a finished run",
        )  # fmt: skip
    return rows, summary, log.find_entry("config")


def _read_time(summary: LogEntry) -> str | None:
    time = summary.find_text("timestamp")
    return time.removesuffix("Z") if time else None


def _name_provider(row: LogEntry) -> str:
    provider = row.tree.get("provider")
    if isinstance(provider, str):
        return provider
    entry = row.find_entry("provider")
    return entry.find_text("label") or entry.text("id")


def _find_config(config: LogEntry, row: LogEntry) -> LogEntry | None:
    """The configuration of a row's provider; None where it has none."""
    names = {_name_provider(row)}
    if isinstance(row.tree.get("provider"), dict):
        names.add(str(row.find_entry("provider").tree.get("id")))
    providers = config.tree.get("providers")
    for provider in providers if isinstance(providers, list) else ():
        entry = LogEntry(provider, config.where) if isinstance(provider, dict) else None
        if entry is None or names.isdisjoint({str(entry.tree.get("id")), str(entry.tree.get("label"))}):
            continue
        return entry.find_entry("config")
    return None


def _read_generation(config: LogEntry) -> dict[str, Any]:
    made = {theirs: config.tree[name] for name, theirs in _SETTINGS.items() if name in config}
    return {"until": [], **({} if "temperature" in made else {"do_sample": True}), **made}


def _read_rates(summary: LogEntry, provider: _Provider) -> dict[str, float]:
    """The pass rate that promptfoo counted for each prompt of a provider, by the prompt's text."""
    rates = {}
    for prompt in summary.find_entries("prompts"):
        metrics = prompt.find_entry("metrics")
        passed, failed = metrics.find_count("testPassCount"), metrics.find_count("testFailCount")
        if prompt.tree.get("provider") == provider.model and passed is not None and failed is not None:
            label = str(prompt.tree.get("label"))
            if passed + failed and label not in rates:
                rates[label] = passed / (passed + failed)
    return rates


def _make_record(place: Place, provider: _Provider) -> LogRecord:
    prompts: dict[str, list[LogEntry]] = {}
    for row in provider.rows:
        prompts.setdefault(_label_prompt(row), []).append(row)

    def read(name: str, label: str) -> LoggedTask:
        rows = prompts[label]
        return LoggedTask(
            name=name,
            answers=_read_answers(rows),
            harness="promptfoo",
            model=provider.model,
            time=provider.time,
            file=provider.file,
            generation=provider.generation,
            scores={"pass": provider.rates[label]} if label in provider.rates else {},
            grader=_describe_grader(rows),
            settings=provider.settings,
            grader_settings=provider.grader_settings,
        )

    names = (f"promptfoo_prompt_{number}" if len(prompts) > 1 else "promptfoo" for number in range(1, len(prompts) + 1))
    return LogRecord(
        place.name, [FoundLog(name, partial(read, name, label)) for name, label in zip(names, prompts, strict=True)]
    )


def _label_prompt(row: LogEntry) -> str:
    prompt = row.find_entry("prompt") if isinstance(row.tree.get("prompt"), dict) else row
    return str(prompt.tree.get("label") or row.find_key("promptId") or row.find_key("promptIdx") or "")


def _read_answers(rows: Sequence[LogEntry]) -> list[RecordedDoc]:
    seen: dict[str, int] = {}
    answers = []
    for row in rows:
        test = row.find_entry("testCase")
        given = (test if "vars" in test else row).find_entry("vars").tree
        asserts = test.find_entries("assert")
        key = hash_json([given, [entry.tree for entry in asserts]])
        answers.append(_read_answer(row, key, seen.get(key, 0), given, asserts))
        seen[key] = seen.get(key, 0) + 1
    return answers


def _read_answer(
    row: LogEntry, key: str, repeat: int, given: Mapping[str, Any], asserts: Sequence[LogEntry]
) -> RecordedDoc:
    response = row.find_entry("response")
    output = response.tree.get("output")
    tokens = response.find_entry("tokenUsage").find_count("completion")
    golds = [entry.tree.get("value") for entry in asserts if entry.tree.get("type") == "equals"]
    return record_answer(
        key=key,
        repeat=repeat,
        question={"query": format_json(given)},
        gold=golds[0] if len(golds) == 1 and isinstance(golds[0], str) else "",
        prompt=_read_prompt(row),
        answer=output if isinstance(output, str) else "" if output is None else format_json(output),
        verdicts=_read_verdicts(row),
        finish_reason=response.find_text("finishReason"),
        completion_tokens=tokens or None,
        fault=_find_fault(row, response),
    )


def _read_prompt(row: LogEntry) -> str | list[dict[str, Any]] | None:
    """The prompt as it was sent: a text, or the chat messages that its JSON holds."""
    prompt = row.tree.get("prompt")
    raw = prompt if isinstance(prompt, str) else row.find_entry("prompt").find_text("raw")
    if raw and raw.lstrip().startswith("["):
        try:
            messages = parse_log(raw.encode(), row.where)
        except SourceError:
            return raw
        if messages and all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
            return list(messages)
    return raw or None


def _read_verdicts(row: LogEntry) -> dict[str, float]:
    """Whether the test passed, its score, and its named scores."""
    passed = row.tree.get("success")
    if not isinstance(passed, bool):
        raise row.refuse("success", passed, "true or false")
    verdicts = {"pass": float(passed)}
    score = row.find_number("score")
    if score is not None:
        verdicts["score"] = score
    named = row.find_entry("namedScores")
    for name in named.tree:
        value = named.find_number(name)
        if value is not None:
            verdicts[f"named/{name}"] = value
    return verdicts


def _find_fault(row: LogEntry, response: LogEntry) -> str | None:
    """Why a result is no verdict; None if it is one. An assertion that failed is a verdict."""
    reason = row.find_count("failureReason")
    graded = isinstance(row.tree.get("gradingResult"), dict)
    error = row.tree.get("error") or response.tree.get("error")
    if reason == _ERROR or (reason is None and error and not graded):
        return f"the provider failed: {error}"
    return None


def _describe_grader(rows: Sequence[LogEntry]) -> str:
    """The kinds of assertions with their judges, and a hash of all that they say."""
    tests = [row.find_entry("testCase") for row in rows]
    all_asserts = [
        entry.find_settings({name: name for name in ("type", "value", "threshold", "weight", "provider", "transform")})
        for test in tests
        for outer in test.find_entries("assert")
        for entry in (outer, *outer.find_entries("assert"))  # those of an assert-set, too
    ]
    options = [
        test.find_settings({name: f"options.{name}" for name in ("provider", "rubricPrompt", "transform")})
        for test in tests
    ]
    kinds = sorted({_name_assertion(entry.get("type"), entry.get("provider")) for entry in all_asserts})
    digest = hash_json(sorted({format_json(hide_secrets(entry)) for entry in (*all_asserts, *options)}))
    return f"promptfoo {', '.join(kinds)} {digest[:12]}"


def _name_assertion(kind: object, judge: object) -> str:
    """``llm-rubric by openai:gpt-4o``."""
    judge = judge.get("id") if isinstance(judge, dict) else judge
    return f"{kind} by {judge}" if judge else str(kind)
