"""Parses a sample of a samples file.

Every version of lm-eval writes doc_id, doc, target, arguments, resps, filtered_resps and the metrics. 0.4.3 (May 2024)
added three hashes, 0.4.7 ``filter`` and ``metrics``. Since 0.4.3 answers and likelihoods are text, and arguments are an
object. Docs may have any shape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence, ValuesView
from typing import Any, NamedTuple

from meta_eval.base.errors import locating
from meta_eval.base.hashing import hash_text, hash_texts
from meta_eval.base.inputs import parse_loose_json
from meta_eval.base.thresholds import MAX_GEN_TOKS
from meta_eval.harness.answer_traits import HOLDS_THOUGHTS, find_traits, hash_behind_thoughts
from meta_eval.harness.chat_messages import asks_chat_body, offers_tools
from meta_eval.harness.clusters import read_field
from meta_eval.harness.doc_results import (
    MAX_EXTRACTED_CHARS,
    MAX_TAIL_CHARS,
    DocResult,
    FilterResult,
    MetricValue,
    ResultsError,
    Sample,
    find_answer,
    has_bad_perplexity,
    make_not_a_sample_error,
    read_figures,
    read_value,
    to_plain_number,
)
from meta_eval.harness.families import find_leading_bos

# Finish reason of an answer that a server's content filter cut off.
FILTERED = "content_filter"

# What filters give for an answer without a match: lm-eval's fallback, and the empty text.
_NOTHING = ("", "[invalid]")

# lm-eval's names of the token limit of an answer; the first one present counts.
_LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")


def parse_sample(content: bytes, *, cut: bool) -> dict[str, Any]:
    """Parse a sample as an object; ``cut`` if it ends a file without a line break.

    Raises:
        ResultsError: It is not an object.
    """
    try:
        sample = parse_loose_json(content)
    except ValueError:
        ends = ", and ends the file: it is cut off" if cut else ""
        raise ResultsError(f"is not JSON{ends}", hint="Use the file of a finished run") from None
    if not isinstance(sample, dict):
        raise make_not_a_sample_error("is no object")
    return sample


class SampleParts(NamedTuple):
    """What several readers of a sample look at, read once."""

    doc: Mapping[str, Any]
    """Its doc; empty if that is no object, for it may be any JSON value."""

    requests: Sequence[Sequence[Any]]
    """What `read_arguments` gives."""

    settings: Mapping[str, Any]
    """What `read_settings` gives."""

    outputs: Sequence[str]
    """What `read_outputs` gives."""

    answer: Mapping[str, Any]
    """What `find_answer` gives."""


def _read_parts(sample: Sample) -> SampleParts:
    if "doc" not in sample or not isinstance(sample.get("resps"), list):
        raise make_not_a_sample_error("doc or resps are missing")
    doc, requests, settings = sample["doc"], read_arguments(sample), read_settings(sample)
    outputs = read_outputs(sample, settings)
    return SampleParts(doc if isinstance(doc, dict) else {}, requests, settings, outputs, find_answer(sample))


def read_sample(
    sample: Sample,
    *,
    offset: int,
    length: int,
    filter_name: str | None,
    known: Mapping[int, DocResult],
    may_be_nan: Container[str] = (),
    cluster_field: str | None = None,
) -> tuple[SampleParts, DocResult, str, FilterResult]:
    """Read a sample: its parts, its doc, the name of its filter, and the filter's result.

    Args:
        sample: The sample.
        known: Docs that were read, by number. The doc is one of them if another sample has this question and answer;
            else it is a new one, still without results.
        offset: Its start in the file.
        length: Its length in bytes.
        filter_name: Its filter if it has no filter name (lm-eval before 0.4.7); None if unknown.
        may_be_nan: Metrics with values that are left out if they are not numbers.
        cluster_field: The field of the doc with its cluster; None for a pack's own column.

    Raises:
        ResultsError: It is not a sample of lm_eval, or a score is not a number.
    """
    doc_id = _doc_id(sample)
    name, parts = _filter(sample, filter_name), _read_parts(sample)
    try:
        identity, doc = _identify(sample, parts), known.get(doc_id)
        if doc is None or identity != (doc.question_hash, doc.prompt_hashes, doc.gold, doc.answer_tail):
            doc = _doc(doc_id, sample, parts, identity, cluster_field)
        is_unextracted = read_unextracted(sample, parts.outputs)
        extraction = None if is_unextracted else _find_extraction(sample, parts.outputs)
        metrics = read_metrics(sample, may_be_nan)
        answer = FilterResult(
            None if extraction is None else extraction[:MAX_EXTRACTED_CHARS], metrics, offset, length,
            _read_each_answer(sample, metrics), _read_majority(parts.answer), _count_given(sample),
            is_timed_out(extraction), is_unextracted,
        )  # fmt: skip
        return parts, doc, name, answer
    except RecursionError:
        raise make_not_a_sample_error("is nested too deeply") from None


def read_doc_number(sample: Sample) -> int | None:
    """Read lm-eval's number of a sample's doc; None if there is none."""
    doc_id = sample.get("doc_id")
    return doc_id if isinstance(doc_id, int) and not isinstance(doc_id, bool) and doc_id >= 0 else None


def _doc_id(sample: Sample) -> int:
    doc_id = read_doc_number(sample)
    if doc_id is None:
        raise make_not_a_sample_error(f"doc_id is {sample.get('doc_id')!r:.80}")
    return doc_id


def _filter(sample: Sample, filter_name: str | None) -> str:
    name = sample.get("filter", filter_name)
    if not isinstance(name, str):
        raise ResultsError(
            "names no filter (as before lm-eval 0.4.7), and no results file next to it does",
            hint="Put the run's results file next to it",
        )
    return name


# The hash of the question, those of the prompts, the right answer, and the end of the model's answer.
_Identity = tuple[str, tuple[str, ...], str, str]


def _identify(sample: Sample, parts: SampleParts) -> _Identity:
    doc = parts.doc
    question, hashes, gold = doc.get("input_question_hash"), doc.get("input_final_prompts_hash"), doc.get("gold")
    return (
        question if isinstance(question, str) else _hash_of(sample, "doc_hash", sample["doc"]),
        tuple(map(str, hashes)) if isinstance(hashes, list) else (_prompt_hash(sample, parts.requests),),
        gold if isinstance(gold, str) else str(sample.get("target")),
        (parts.outputs[0] if parts.outputs else "")[-MAX_TAIL_CHARS:],
    )


def _doc(doc_id: int, sample: Sample, parts: SampleParts, identity: _Identity, cluster_field: str | None) -> DocResult:
    doc, requests, settings, answers, answer = parts
    question_hash, prompt_hashes, gold, answer_tail = identity
    has_meta_hash = isinstance(doc.get("input_question_hash"), str)
    prompt = doc.get("recorded_prompt", doc.get("prompt"))
    is_pack_doc = isinstance(doc.get("input_final_prompts_hash"), list) and isinstance(prompt, str)
    recorded = doc.get("recorded_is_correct", doc.get("previously_is_correct")) if has_meta_hash else None
    metrics, subtask = doc.get("recorded_metrics"), doc.get("subtask_name")
    cluster = read_field(doc, cluster_field or "cluster") if cluster_field or has_meta_hash else None
    choices = doc.get("choices") if is_pack_doc else None
    sent, traits = _prompt_hash(sample, requests), find_traits(answers)
    count = len(choices) if isinstance(choices, list) and choices else len(requests) if len(requests) > 1 else None
    return DocResult(
        doc_id=doc_id,
        question_hash=question_hash,
        prompt_hashes=prompt_hashes,
        prompt_matches=asks_chat_body(requests[0], prompt) if requests and is_pack_doc else None,
        subtask=subtask if isinstance(subtask, str) else None,
        cluster=cluster,
        gold=gold,
        n_choices=count,
        recorded_is_correct=recorded if isinstance(recorded, bool) else None,
        recorded_metrics=metrics
        if isinstance(metrics, str) and has_meta_hash and _load_recorded(metrics) is not None
        else None,
        answer_tail=answer_tail,
        answer_empty=False,
        limit_hit=None,
        answer_length=len(max(answers, key=len)) if len(answers) > 1 else len("".join(answers)),
        figures=read_figures(sample, answers),
        place=place if isinstance(place := answer.get("random_place"), int) else None,
        sent_hash=sent or None,
        answer_hash=str(answer.get("turns") or "") or hash_answers(sample["resps"]),
        said_hash=hash_behind_thoughts(answers) if HOLDS_THOUGHTS in traits else None,
        traits=traits,
        leading_bos=find_leading_bos(requests[0][0]) if requests and isinstance(requests[0][0], str) else "",
        has_bad_likelihood=(not settings and has_bad_likelihood(sample)) or has_bad_perplexity(sample),
        tools_lost=answer.get("tools_lost") is True and is_pack_doc and offers_tools(prompt),
    )


def _load_recorded(text: str) -> dict[str, Any]:
    """The recorded metrics of a doc: a JSON object. Anything else was damaged after prepare."""
    try:
        metrics = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        metrics = None
    if not isinstance(metrics, dict):
        raise ResultsError(
            "recorded_metrics is not a JSON object", hint="Use the file as lm_eval wrote it, of a whole pack"
        )
    return metrics


def _hash_of(sample: Sample, name: str, content: Any) -> str:
    """The hash in a sample; for old files without hashes, computed as lm-eval does. Empty where none was wanted."""
    digest = sample.get(name)
    if isinstance(digest, str):
        return digest
    text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False)
    return hash_text(text)


def _prompt_hash(sample: Sample, requests: Sequence[Sequence[Any]]) -> str:
    return _hash_of(sample, "prompt_hash", requests[0][0] if requests else None)


def read_arguments(sample: Sample) -> list[list[Any]]:
    """Read the requests: for each a prompt, and generation settings or a continuation."""
    arguments = sample.get("arguments")
    if isinstance(arguments, dict):  # {"gen_args_0": {"arg_0": …, "arg_1": …}, …}
        arguments = [request.values() if isinstance(request, dict) else request for request in arguments.values()]
    requests = arguments if isinstance(arguments, list) else []
    return [list(request) for request in requests if isinstance(request, (list, tuple, ValuesView)) and request]


def read_output(sample: Sample) -> str | None:
    """Read the model's output; None for a choice by likelihood."""
    return next(iter(read_outputs(sample)), None)


def read_outputs(sample: Sample, settings: Mapping[str, Any] | None = None) -> list[str]:
    """Read all outputs of the model, for each repeat; none for a choice by likelihood. A null text is empty.

    Args:
        sample: The sample.
        settings: What `read_settings` gives for it, if that was read already.
    """
    responses: Any = sample["resps"]
    while isinstance(responses, list) and responses:
        first = responses[0]
        if first is None or isinstance(first, str):
            return [response or "" for response in responses if response is None or isinstance(response, str)]
        if _is_likelihood(first) and not (read_settings(sample) if settings is None else settings):
            return []
        responses = first
    return []


def hash_answers(responses: Any) -> str | None:
    """Hash all answers of a sample; None if there are none. Numbers count as the text that lm-eval writes of them."""
    return hash_texts(_list_parts(responses)) if responses else None


def _list_parts(value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        return [str(value)]
    return [text for part in value for text in ([part] if isinstance(part, str) else _list_parts(part))]


def _count_given(sample: Sample) -> int:
    """Count the answers that a filter gives to the metric: a filter of a single request gives a text, or a list."""
    given = sample.get("filtered_resps")
    first = given[0] if isinstance(given, list) and len(given) == 1 else None
    return len(first) if isinstance(first, list) and first else 1


def is_timed_out(extraction: str | None) -> bool:
    """Whether an extraction is the verdict of the pack's sandbox on a program that ran out of time."""
    if extraction is None or not extraction.startswith('{"code"'):
        return False
    try:
        verdict = json.loads(extraction)
    except (ValueError, RecursionError):
        return False
    return bool(verdict.get("why") == "timeout")


def has_bad_likelihood(sample: Sample) -> bool:
    """Whether a log-likelihood of a doc without texts is no finite number: NaN, infinite, or missing."""
    pairs: list[Any] = []
    left: list[Any] = [sample["resps"]]
    while left:
        responses = left.pop()
        if _is_likelihood(responses):
            pairs.append(responses)
        elif isinstance(responses, (list, tuple)):
            left += responses
    return not all(math.isfinite(_to_likelihood(pair[0])) for pair in pairs)


def _to_likelihood(value: Any) -> float:
    """A log-likelihood, which lm_eval writes as text; NaN for what is no number."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_likelihood(response: Any) -> bool:
    """Whether a response is a pair (log-likelihood, is-greedy), which lm_eval writes as text."""
    if not isinstance(response, (list, tuple)) or len(response) != 2 or str(response[1]) not in ("True", "False"):
        return False
    return (
        response[0] in (None, "None", "null")
        or str(response[0]) == "nan"
        or not math.isnan(_to_likelihood(response[0]))
    )


def read_settings(sample: Sample) -> dict[str, Any]:
    """The generation settings of the first request; empty for a likelihood."""
    arguments = sample.get("arguments")
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    if isinstance(first, dict) and len(first) == 2 and isinstance(settings := first.get("arg_1"), dict):
        return settings  # as lm-eval writes it: each sample is asked several times
    request = next(iter(read_arguments(sample)), ())
    settings = request[1] if len(request) > 1 else None
    return settings if isinstance(settings, dict) else {}


def find_limit(settings: Mapping[str, Any]) -> int | None:
    """Find the token limit of an answer in its generation settings; lm-eval's default if they have none.

    None without settings, as of a likelihood.
    """
    if not settings:
        return None
    limit = settings.get(next(filter(settings.__contains__, _LIMITS), ""), MAX_GEN_TOKS)
    return limit if isinstance(limit, int) and not isinstance(limit, bool) else None


def read_extraction(sample: Sample) -> str | None:
    """Read what a filter extracted; for a choice by likelihood, the likeliest continuation.

    None if it extracted nothing, or returns the whole output.

    Args:
        sample: The sample from a file of lm_eval, or from its evaluator.
    """
    is_known = isinstance(sample.get("filtered_resps"), list) and not read_unextracted(sample)
    return _find_extraction(sample) if is_known else None


def _find_extraction(sample: Sample, outputs: Sequence[str] | None = None) -> str | None:
    """`read_extraction` of a sample in which something is known to be extracted."""
    responses: Any = sample.get("filtered_resps")
    if not isinstance(responses, list) or not responses:
        return None
    if len(responses) > 1 and all(map(_is_likelihood, responses)):
        likelihoods = [_to_likelihood(response[0]) for response in responses]
        requests = read_arguments(sample)
        chosen = max(range(len(responses)), key=likelihoods.__getitem__)
        is_finite = (
            all(map(math.isfinite, likelihoods)) and len(requests) == len(responses) and len(requests[chosen]) > 1
        )
        return str(requests[chosen][1]).strip() if is_finite else None
    first = responses[0]
    while isinstance(first, (list, tuple)) and len(first) == 1:
        first = first[0]
    if not isinstance(first, str):
        return None
    texts = read_outputs(sample) if outputs is None else outputs
    return str(first) if not texts or first != texts[0] else None


def read_unextracted(sample: Sample, outputs: Sequence[str] | None = None) -> bool | None:
    """Whether a filter found nothing in an answer: the one definition of it.

    It is what the grader logs as ``unextracted``, else a filtered answer that is empty, null or lm-eval's
    ``[invalid]``. A filter that gives back the whole text extracts nothing, so it cannot fail; neither can one that
    finds an empty answer where the target is empty.

    Args:
        sample: The sample.
        outputs: What `read_outputs` gives for it, if that was read already.

    Returns:
        None if it is unknown: the filtered answer is not in the sample, or a likelihood is no number. Of several
        answers, whether it is so of all.
    """
    logged = to_plain_number(sample.get("unextracted")) if _logs_unextracted(sample) else None
    if isinstance(logged, (bool, int, float)):
        return logged == 1
    responses: Any = sample.get("filtered_resps")
    if not isinstance(responses, list) or not responses:
        return None
    outputs = read_outputs(sample) if outputs is None else outputs
    if not outputs:
        return None if has_bad_likelihood(sample) else False
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    several = responses if isinstance(responses, list) and len(responses) == len(outputs) else [responses]
    texts = outputs if len(several) == len(outputs) else outputs[:1]
    is_empty_right = sample.get("target") in ("", [], None) and "target" in sample
    given = zip(several, texts, strict=True)
    return False not in [_is_nothing(each, text) and not (is_empty_right and not each) for each, text in given]


def _is_nothing(response: Any, text: str) -> bool:
    if response is not None and not isinstance(response, str):
        return False
    extracted = (response or "").strip()
    return extracted in _NOTHING and extracted != text.strip()


def _logs_unextracted(sample: Sample) -> bool:
    """Whether ``unextracted`` is one of `list_metrics`."""
    names = sample.get("metrics")
    return "unextracted" in sample and ("unextracted" in names if isinstance(names, list) else True)


# What a sample of lm-eval before 0.4.7, which does not list its metrics, holds beside them.
_OLD_FIELDS = frozenset(
    (
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    )
)

SAMPLE_FIELDS = _OLD_FIELDS | {"metrics", "answer"}
"""What a sample holds beside its metrics. A metric of such a name would take the place of the field."""


def list_metrics(sample: Sample) -> list[str]:
    """List the metrics that a sample names, in lm-eval's order."""
    names = sample.get("metrics")
    return list(map(str, names)) if isinstance(names, list) else [name for name in sample if name not in _OLD_FIELDS]


def read_metrics(sample: Sample, may_be_nan: Container[str]) -> dict[str, MetricValue]:
    """Read the metrics of a sample, except shapes that only their own aggregation understands.

    Args:
        sample: The sample, or only its metrics.
        may_be_nan: Metrics that are left out if they are not numbers.

    Raises:
        ResultsError: A metric is missing, or another metric is not a number.
    """
    values: dict[str, MetricValue] = {}
    for name in list_metrics(sample):
        if name not in sample:
            raise make_not_a_sample_error(f"the metric {name!r:.80} is missing")
        value = read_value(name, sample[name])
        score = value[-1] if isinstance(value, tuple) else value
        if isinstance(score, float) and not math.isfinite(score):
            if name in may_be_nan:
                continue
            raise ResultsError(f"{name} is {score}, which is not a score", hint="Fix the task's scoring")
        if value is not None:
            values[name] = value
    return values


def _read_each_answer(sample: Sample, metrics: Mapping[str, MetricValue]) -> dict[str, tuple[float, ...]]:
    """Read the verdict on each of several answers, by metric, as `meta-eval grade` writes them.

    Raises:
        ResultsError: They are not shares, not one of each answer, or the metric's value does not lie between them.
    """
    logged, verdicts = find_answer(sample).get("each_answer"), {}
    given = sum(len(response) if isinstance(response, list) else 1 for response in sample["resps"])
    for name, values in logged.items() if isinstance(logged, dict) else [("", logged)] if logged is not None else ():
        numbers = [read_value(name, value) for value in values] if isinstance(values, list) else []
        shares = tuple(value for value in numbers if isinstance(value, float) and 0 <= value <= 1)
        if not shares or len(shares) < len(numbers) or name not in metrics:
            raise ResultsError("each_answer holds no verdicts from 0 to 1", hint="Grade the answers again")
        value = whole[-1] if isinstance(whole := metrics[name], tuple) else whole
        is_between = not isinstance(value, float) or min(shares) <= value <= max(shares)
        if not is_between or given not in (0, 1, len(shares)):  # regraded ones keep the first answer alone
            raise ResultsError(
                "each_answer and the answers, or their verdict, do not agree", hint="Grade the answers again"
            )
        verdicts[name] = shares
    return verdicts


def read_ends(answer: Mapping[str, Any]) -> list[str | None]:
    """Read how each of the answers of which `find_answer` gave this ended; None where that is unknown."""
    ends = answer.get("finish_reasons", answer.get("finish_reason"))
    return [end if isinstance(end, str) else None for end in (ends if isinstance(ends, list) else [ends])]


def _read_majority(answer: Mapping[str, Any]) -> int | None:
    """Read which of several answers is the most frequent one, as `meta-eval grade` writes it."""
    place = answer.get("majority_answer")
    return place if isinstance(place, int) and not isinstance(place, bool) and place >= 0 else None


def read_recorded_verdicts(
    is_correct: Sequence[bool | None], metrics: Sequence[str | None], metric: str, reading: str | None = None
) -> tuple[list[float | None], str]:
    """Read Meta's verdict on each doc, None if it recorded none, and where the verdicts come from.

    If any doc has a recorded metric of this name (such as F1 or ROUGE), that metric is used, otherwise ``is_correct``.
    They are never mixed: a value of 0.6 cannot be compared with a yes.

    Raises:
        ResultsError: A recorded metric of this name is not a share, or recorded metrics are no JSON object.

    Args:
        is_correct: Meta's verdict on each doc.
        metrics: The recorded metrics of each, as JSON text.
        metric: The name of the recorded metric.
        reading: The metric with the meaning of ``is_correct``, if that is not a verdict. ``is_correct`` is then not
            used as a verdict, because a difference between readings does not show which answer is better.
    """
    values = [_metric(text, metric) for text in metrics]
    if any(value is not None for value in values):
        return values, f"recorded {metric}"
    return [None if value is None or reading is not None else float(value) for value in is_correct], "is_correct"


def _metric(text: str | None, metric: str) -> float | None:
    value = _load_recorded(text).get(metric) if text else None
    if not isinstance(value, (bool, float)):
        return None
    if not 0 <= value <= 1:
        raise ResultsError(
            f"the recorded metric {metric} of a doc is {value}, and must be a number from 0 to 1",
            hint="Prepare the pack again, and run it",
        )
    return float(value)


def restore_recorded_docs(docs: Sequence[DocResult]) -> list[DocResult]:
    """Restore the recorded metrics of the docs of a recorded run. Docs without metrics are dropped."""
    recorded = []
    for doc in docs:
        metrics = json.loads(doc.recorded_metrics) if doc.recorded_metrics else None
        if isinstance(metrics, dict) and metrics:
            with locating(f"doc {doc.doc_id}"):
                recorded.append(doc.with_recorded(read_filter_results(metrics)))
    return recorded


def read_filter_results(metrics: Mapping[str, Any]) -> dict[str, FilterResult]:
    """Make the result of each filter; ``metrics`` by ``metric,filter``, as lm-eval wrote them.

    Raises:
        ResultsError: A metric is not a number.
    """
    by_filter: dict[str, dict[str, Any]] = {}
    for metric_key, value in metrics.items():
        metric, _, name = metric_key.partition(",")
        by_filter.setdefault(name, {})[metric] = value
    # Values that are not numbers are left out, as in the task's own average.
    return {name: FilterResult(None, read_metrics(metrics, metrics), 0, 0) for name, metrics in by_filter.items()}
