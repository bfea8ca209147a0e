"""Docs and scores for long prompts: questions about a book or an article, and needles in a haystack.

Two subsets contain several benchmarks. The subtask's name tells the benchmark of a doc, or else the names of Meta's
recorded metrics. Each benchmark has the metric of its official script, and ``score`` repeats this metric.

- choice, for InfiniteBench En.MC and ZeroSCROLLS QuALITY: ``acc`` is whether the letter is right. En.MC follows its
  script (`official_choice`), and ``acc_flexible`` reads the letter as a person would.
- span, for InfiniteBench En.QA and ZeroSCROLLS Qasper: ``f1`` over words as SQuAD's, the best over correct responses.
- summary, for ZeroSCROLLS SQuALITY: ``rougeL``, the best over references. ``rouge`` is the geometric mean of the mean
  ROUGE-1, ROUGE-2 and ROUGE-L.

No public source shows the golds of Meta's rows. Of the subtasks' names only InfiniteBench's are quoted (longbookqa,
longbook_choice).
"""

import json
import math
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows, spans, rouge = map(load.module, (".._common.rows", ".._common.spans", ".._common.rouge"))
macro_average = rows.macro_average
mean = rows.mean

# The first key in the last part of a subtask's name counts, because squality contains quality. Letters only.
_NAMES = {"squality": "summary", "quality": "choice", "choice": "choice", "qa": "span", "mc": "choice"}
# A recorded metric's name begins with the key. Letters only.
_RECORDED = {"rouge": "summary", "f": "span", "acc": "choice", "em": "choice"}
_MEASURES = {"choice": "acc", "span": "f1", "summary": "rougeL"}


# Docs


# Meta's token limits for ZeroSCROLLS (eval_details.md), for rows without a limit.
_LIMITS = {"choice": 64, "summary": 64, "span": 128}


def make_doc_with_limit(row: dict) -> dict:
    """Make a doc as `make_doc`, with Meta's token limit as ``max_gen_toks``."""
    doc = make_doc(row)
    return {**doc, "max_gen_toks": _find_limit(row, doc["kind"])}


def _find_limit(row: dict, kind: str) -> int:
    recorded = str((row.get("eval_config") or {}).get("max_gen_len") or "")
    return int(recorded) if recorded.isdecimal() else _LIMITS[kind]


def make_doc(row: dict) -> dict:
    """Make a doc of a span task with its ``kind``. ``recorded_metrics`` repeats Meta's value as ``score``.

    Raises:
        ValueError: The row's benchmark is unknown, or the correct response is none of its choices.
    """
    doc = spans.make_doc(row)
    recorded = json.loads(doc["recorded_metrics"] or "{}")
    kind = _find_kind(doc["subtask_name"], recorded)
    if kind is None:
        raise rows.refused(
            row,
            f"neither the subtask {doc['subtask_name']!r} nor the recorded metrics {sorted(recorded)} tell which "
            "benchmark it is of",
        )
    fitting = [name for name in recorded if _find_metric_kind(name) == kind]
    if kind == "choice" and not gold_letters(doc):
        raise rows.refused(row, f"none of {doc['answers']} is one of its choices")
    value = recorded.get(_MEASURES[kind], recorded[fitting[0]] if fitting else None)
    if value is not None:
        doc["recorded_metrics"] = json.dumps({**recorded, "score": value})
    return {**doc, "kind": kind}


process_docs = rows.docs_by(make_doc)
process_docs_with_limits = rows.docs_by(make_doc_with_limit)


def _find_kind(subtask: str | None, recorded: dict) -> str | None:
    name = _keep_letters(re.split(r"[./]", subtask or "")[-1])
    for word, kind in _NAMES.items():
        if word in name:
            return kind
    kinds = {_find_metric_kind(metric) for metric in recorded}
    return next((kind for kind in _RECORDED.values() if kind in kinds), None)


def _find_metric_kind(metric: str) -> str | None:
    return next((kind for word, kind in _RECORDED.items() if _keep_letters(metric).startswith(word)), None)


def _keep_letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


# Scoring


def infinite_bench(doc: dict, results: list[str]) -> dict:
    """Return ``score``, also as ``f1`` or ``acc``. The metric of the other benchmark is None, which `mean` skips.

    ``acc_flexible`` is the verdict on the letter that `choice` finds. ``unextracted`` is 1 for a choice without a
    letter and for an empty answer.
    """
    output = results[0] or ""
    score, has_answer = _score_answer(doc, output)
    flexible = None
    if doc["kind"] == "choice":
        flexible, score = score, float(official_choice(output, accepted(doc)))
        has_answer = has_answer or bool(score)
    return {
        "score": score,
        **_by_measure(doc, score, ("f1", "acc")),
        "acc_flexible": flexible,
        "unextracted": float(not has_answer),
    }


def scrolls(doc: dict, results: list[str]) -> dict:
    """Score as `infinite_bench`, with ``rougeL`` as a third metric. ``rouge`` is all three ROUGEs of a summary or None.

    `choice` finds the letter of a choice, because the benchmark's own scorer is not public.
    """
    output = results[0] or ""
    score, has_answer = _score_answer(doc, output)
    return {
        "score": score,
        **_by_measure(doc, score, ("acc", "f1", "rougeL")),
        "rouge": rouge.best(output, doc["answers"], rouge.ALL) if doc["kind"] == "summary" else None,
        "unextracted": float(not has_answer),
    }


def _score_answer(doc: dict, output: str) -> tuple[float, bool]:
    """Return the score by the metric of the doc's benchmark, and whether there is an answer."""
    if doc["kind"] == "choice":
        chosen = choice(output, doc["choices"])
        return float(chosen in gold_letters(doc)), chosen is not None
    has_answer = bool(output.strip())
    if doc["kind"] == "span":
        return (max(spans.overlap(output, gold) for gold in doc["answers"]) if has_answer else 0.0), has_answer
    return rouge.best(output, doc["answers"])[0], has_answer


def _by_measure(doc: dict, score: float, measures: tuple[str, ...]) -> dict:
    return {name: score if _MEASURES[doc["kind"]] == name else None for name in measures}


_BARE = re.compile(r"[\W_]*([A-J])[\W_]*")


def gold_letters(doc: dict) -> set[str]:
    """Return the letters of the right choices. A correct response is a letter or a choice's text."""
    letters = set()
    for gold in doc["answers"]:
        if bare := _BARE.fullmatch(gold):
            letters.add(bare[1])
        else:
            worded = spans.normalise(gold)
            letters |= {
                choice["key"] for choice in doc["choices"] or () if worded and spans.normalise(choice["text"]) == worded
            }
    return letters


def accepted(doc: dict) -> list[str]:
    """Return the labels of InfiniteBench's script for the right choice: its letter and, if known, its text."""
    letters = gold_letters(doc)
    wordings = [choice["text"] for choice in doc["choices"] or () if choice["key"] in letters]
    return [text for text in dict.fromkeys([*letters, *wordings, *doc["answers"]]) if text.strip()]


# After these phrases and one more character InfiniteBench's script looks for the letter, in this order.
_PREFIXES = ("answer is:", "answer:", "answer is", "option is")
_SPACES = re.compile("[\n\"'.,?!{} ]+")


def official_choice(text: str, accepted: list[str]) -> bool:
    """Return InfiniteBench's verdict on a choice (src/compute_scores.py, get_score_one_longbook_choice_eng).

    The first of these rules that applies decides:

    1. A first character from A to D is the answer, so "A or B" is A and "Both" is B.
    2. A text that equals an accepted label is right.
    3. The label must follow the first known phrase.
    4. The first word made of neighbouring letters of ABCD is the answer.

    Brackets and asterisks are not punctuation to the script, so "(B)" is wrong.

    Args:
        text: The model's answer.
        accepted: The right letter and the text of its choice.
    """
    text = text.strip()
    if text[:1] in set("ABCD"):
        return text[0] in accepted
    if not text or text in accepted:
        return bool(text)
    text = _SPACES.sub(" ", text)
    for prefix in _PREFIXES:
        _, announced, rest = text.partition(prefix)
        if announced:
            return rest[1:].startswith(tuple(accepted))
    return next((word for word in text.split() if word in "ABCD"), None) in accepted


# Before a lower-case word A is an article and I a pronoun, but not in "A is correct" or "A or B".
_NO_WORD = r"A(?! (?!(?:or|and|is|was|because|since)\b)[a-z])|I(?! [a-z])"
_ANNOUNCED = re.compile(rf"(?i:\b(?:answer|option)(?: is)?:?)[\s*_\"'(\[]*([B-HJ](?! [a-z])|{_NO_WORD})(?![\w'\u2019])")
_FIRST = re.compile(rf"[\W_]*([B-HJ]|{_NO_WORD})(?![\w'\u2019])")
_ALONE = re.compile(rf"(?<![\w'\u2019])([B-HJ]|{_NO_WORD})(?![\w'\u2019])")


def choice(text: str, choices: list[dict] | None) -> str | None:
    """Return the letter that a text announces, begins with or alone contains, or None.

    A text that equals a choice's text counts as its letter.
    """
    for listed in choices or ():
        if spans.normalise(text) == spans.normalise(listed["text"]) != "":
            return listed["key"]
    if announced := _ANNOUNCED.findall(text):
        return announced[-1]
    if first := _FIRST.match(text):
        return first[1]
    alone = set(_ALONE.findall(text))
    return alone.pop() if len(alone) == 1 else None


def geometric_mean(items: list[tuple[float, float, float] | None]) -> float:
    """Return the geometric mean of each ROUGE's mean over summaries, as SCROLLS and ZeroSCROLLS do."""
    means = [mean(list(column)) for column in zip(*(item for item in items if item is not None), strict=True)]
    return math.prod(means) ** (1 / len(means)) if means else math.nan


# Needles


def needles(doc: dict, results: list[str]) -> dict:
    """Score ``recall``, the share of the correct responses that the answer contains in any order.

    ``recall_macro`` is the same with its subtask, a context length, for Meta's mean over lengths.
    """
    output = _pad_words(results[0] or "")
    golds = dict.fromkeys(map(_pad_words, doc["answers"]))
    recall = sum(needle in output for needle in golds) / len(golds)
    return {"recall": recall, "recall_macro": (doc["subtask_name"], recall), "unextracted": float(not output.strip())}


def haystack(doc: dict, results: list[str]) -> dict:
    """Score ``exact_match`` and ``contained``, without case, punctuation and articles.

    The answer must equal the needle for ``exact_match`` and contain it for ``contained``.
    """
    answer = results[0]
    if answer == rows.NO_MATCH:
        return {"exact_match": 0.0, "contained": 0.0, "unextracted": 1.0}
    words = f" {spans.normalise(answer)} "
    return {
        "exact_match": float(spans.normalise(answer) in map(spans.normalise, doc["answers"])),
        "contained": float(any(f" {spans.normalise(gold)} " in words for gold in doc["answers"])),
        "unextracted": 0.0,
    }


def _pad_words(text: str) -> str:
    """Normalise a text to words with a space at both ends, so that only whole words match."""
    words = re.findall(r"[^\W_]+", text.lower())
    return f" {' '.join(words)} "
