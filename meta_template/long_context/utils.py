"""Long prompts: questions about a book or an article, and needles in a haystack.

Two subsets hold several benchmarks. Which one a doc is of stands in its subtask's name, else in the names of the
metrics that Meta recorded; each has the metric of its official script, and ``score`` is that metric whichever it is.

choice   InfiniteBench En.MC, ZeroSCROLLS QuALITY: ``acc``, is the letter right. Of En.MC by its script's rule
         (`official_choice`); what that does not take for the letter and a reader does counts in ``acc_flexible``
span     InfiniteBench En.QA, ZeroSCROLLS Qasper: ``f1``, SQuAD's over words, the best over the correct responses
summary  ZeroSCROLLS SQuALITY: ``rougeL``, the best over the references, and ``rouge``, the geometric mean of ROUGE-1,
         ROUGE-2 and ROUGE-L, each averaged over docs first

How Meta's rows write golds here nobody has seen; of the subtasks only InfiniteBench's are quoted (longbookqa,
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

# What the last part of a subtask's name holds, or a recorded metric's name begins with, letters only; the first that
# fits counts: squality holds quality.
_NAMES = {"squality": "summary", "quality": "choice", "choice": "choice", "qa": "span", "mc": "choice"}
_RECORDED = {"rouge": "summary", "f": "span", "acc": "choice", "em": "choice"}
_MEASURES = {"choice": "acc", "span": "f1", "summary": "rougeL"}


# Docs


# Tokens that Meta generated for a part of ZeroSCROLLS (eval_details.md), where a row does not say it.
_LIMITS = {"choice": 64, "summary": 64, "span": 128}


def make_doc_with_limit(row: dict) -> dict:
    """As `make_doc`, and ``max_gen_toks``, how many tokens Meta generated at most."""
    doc = make_doc(row)
    return {**doc, "max_gen_toks": _limit(row, doc["kind"])}


def _limit(row: dict, kind: str) -> int:
    recorded = str((row.get("eval_config") or {}).get("max_gen_len") or "")
    return int(recorded) if recorded.isdecimal() else _LIMITS[kind]


def make_doc(row: dict) -> dict:
    """The columns of a span task's doc, and ``kind``. ``recorded_metrics`` repeats Meta's value as ``score``.

    Raises:
        ValueError: Nothing tells which benchmark the row is of, or the correct response is none of its choices.
    """
    doc = spans.make_doc(row)
    recorded = json.loads(doc["recorded_metrics"] or "{}")
    kind = _kind(doc["subtask_name"], recorded)
    if kind is None:
        raise rows.refused(
            row,
            f"neither the subtask {doc['subtask_name']!r} nor the recorded metrics {sorted(recorded)} tell which "
            "benchmark it is of",
        )
    fitting = [name for name in recorded if _recorded_kind(name) == kind]
    if kind == "choice" and not gold_letters(doc):
        raise rows.refused(row, f"none of {doc['answers']} is one of its choices")
    value = recorded.get(_MEASURES[kind], recorded[fitting[0]] if fitting else None)
    if value is not None:
        doc["recorded_metrics"] = json.dumps({**recorded, "score": value})
    return {**doc, "kind": kind}


process_docs = rows.docs_by(make_doc)
process_docs_with_limits = rows.docs_by(make_doc_with_limit)


def _kind(subtask: str | None, recorded: dict) -> str | None:
    name = _letters(re.split(r"[./]", subtask or "")[-1])
    for word, kind in _NAMES.items():
        if word in name:
            return kind
    kinds = {_recorded_kind(metric) for metric in recorded}
    return next((kind for kind in _RECORDED.values() if kind in kinds), None)


def _recorded_kind(metric: str) -> str | None:
    return next((kind for word, kind in _RECORDED.items() if _letters(metric).startswith(word)), None)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


# Scoring


def infinite_bench(doc: dict, results: list[str]) -> dict:
    """``score``, and the same as ``f1`` or ``acc``, whichever the doc has; the other is None, which `mean` passes over.

    ``acc_flexible`` is the verdict on the letter that `choice` finds. ``unextracted`` is 1 when a choice has no letter,
    or the answer is empty.
    """
    output = results[0] or ""
    score, has_answer = _score(doc, output)
    flexible = None
    if doc["kind"] == "choice":
        flexible, score = score, float(official_choice(output, accepted(doc)))
        has_answer = has_answer or bool(score)
    return {
        "score": score,
        **_shared_out(doc, score, ("f1", "acc")),
        "acc_flexible": flexible,
        "unextracted": float(not has_answer),
    }


def scrolls(doc: dict, results: list[str]) -> dict:
    """As `infinite_bench`, with ``rougeL`` as a third; and ``rouge``, all three ROUGEs of a summary or None.

    The verdict on a choice is that on the letter that `choice` finds: the benchmark's own scorer is not public.
    """
    output = results[0] or ""
    score, has_answer = _score(doc, output)
    return {
        "score": score,
        **_shared_out(doc, score, ("acc", "f1", "rougeL")),
        "rouge": rouge.best(output, doc["answers"], rouge.ALL) if doc["kind"] == "summary" else None,
        "unextracted": float(not has_answer),
    }


def _score(doc: dict, output: str) -> tuple[float, bool]:
    """The score by the metric of the doc's benchmark, and whether there is an answer."""
    if doc["kind"] == "choice":
        chosen = choice(output, doc["choices"])
        return float(chosen in gold_letters(doc)), chosen is not None
    has_answer = bool(output.strip())
    if doc["kind"] == "span":
        return (max(spans.overlap(output, gold) for gold in doc["answers"]) if has_answer else 0.0), has_answer
    return rouge.best(output, doc["answers"])[0], has_answer


def _shared_out(doc: dict, score: float, measures: tuple[str, ...]) -> dict:
    return {name: score if _MEASURES[doc["kind"]] == name else None for name in measures}


_BARE = re.compile(r"[\W_]*([A-J])[\W_]*")


def gold_letters(doc: dict) -> set[str]:
    """The letters of the right choices: a correct response is a letter, or the wording of a choice of the doc."""
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
    """What InfiniteBench's script calls the label of a choice: the right letter, and its wording where it is known."""
    letters = gold_letters(doc)
    wordings = [choice["text"] for choice in doc["choices"] or () if choice["key"] in letters]
    return [text for text in dict.fromkeys([*letters, *wordings, *doc["answers"]]) if text.strip()]


# Places in which InfiniteBench's script looks for the letter, in its order; one character stands between.
_PREFIXES = ("answer is:", "answer:", "answer is", "option is")
_SPACES = re.compile("[\n\"'.,?!{} ]+")


def official_choice(text: str, accepted: list[str]) -> bool:
    """InfiniteBench's verdict on a choice (src/compute_scores.py, get_score_one_longbook_choice_eng).

    The first character decides where it is A to D, so that "A or B" is A, and "Both" is B. Else the whole text may be
    the wording of the choice; else the letter or the wording follows the first of the known phrases; else the first
    word made of neighbouring letters of ABCD decides. Brackets and asterisks are no punctuation to it: "(B)" is wrong.

    Args:
        text: What the model wrote.
        accepted: The right letter and the wording of its choice.
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


# Before a word in lower case an A is an article and an I a person; but "A is correct", "A or B".
_NO_WORD = r"A(?! (?!(?:or|and|is|was|because|since)\b)[a-z])|I(?! [a-z])"
_ANNOUNCED = re.compile(rf"(?i:\b(?:answer|option)(?: is)?:?)[\s*_\"'(\[]*([B-HJ](?! [a-z])|{_NO_WORD})(?![\w'\u2019])")
_FIRST = re.compile(rf"[\W_]*([B-HJ]|{_NO_WORD})(?![\w'\u2019])")
_ALONE = re.compile(rf"(?<![\w'\u2019])([B-HJ]|{_NO_WORD})(?![\w'\u2019])")


def choice(text: str, choices: list[dict] | None) -> str | None:
    """The choice that a text makes: the letter that it announces, begins with, or alone holds; None when it makes none.

    The wording of a choice, where the row has them, stands for its letter.
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
    """Of the means over summaries of each ROUGE, as SCROLLS and ZeroSCROLLS aggregate them."""
    means = [mean(list(column)) for column in zip(*(item for item in items if item is not None), strict=True)]
    return math.prod(means) ** (1 / len(means)) if means else math.nan


# Needles


def needles(doc: dict, results: list[str]) -> dict:
    """``recall``: the share of the needles that the answer holds; every correct response is one. Order is nothing.

    ``recall_macro`` is the same with its subtask, a context length, for Meta's mean over lengths.
    """
    output = _words(results[0] or "")
    wanted = dict.fromkeys(map(_words, doc["answers"]))
    recall = sum(needle in output for needle in wanted) / len(wanted)
    return {"recall": recall, "recall_macro": (doc["subtask_name"], recall), "unextracted": float(not output.strip())}


def haystack(doc: dict, results: list[str]) -> dict:
    """``exact_match``: the answer is the needle but for case, punctuation and articles; ``contained``: it holds it."""
    answer = results[0]
    if answer == rows.NO_MATCH:
        return {"exact_match": 0.0, "contained": 0.0, "unextracted": 1.0}
    held = f" {spans.normalise(answer)} "
    return {
        "exact_match": float(spans.normalise(answer) in map(spans.normalise, doc["answers"])),
        "contained": float(any(f" {spans.normalise(gold)} " in held for gold in doc["answers"])),
        "unextracted": 0.0,
    }


def _words(text: str) -> str:
    """Normalised, with a space at both ends, so that one text stands in another only as whole words."""
    words = re.findall(r"[^\W_]+", text.lower())
    return f" {' '.join(words)} "
