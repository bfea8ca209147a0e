"""Make docs of tool-call tasks, extract calls from answers, and score them.

We saw no rows of these tasks. The code follows the public evaluations that Meta names. If Meta changed them, it follows
Meta's description (eval_details.md). We assume that ``input_correct_responses`` are alternatives, and that each has the
text of all requested calls.

Each benchmark has a module that defines which answers are right. calls.py and expressions.py parse Python calls.
Nothing is ever executed.
"""

import functools
import json
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import datasets

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")
calls, nexus, api_bank, apibench, bfcl = map(load.module, (".calls", ".nexus", ".api_bank", ".apibench", ".bfcl"))
macro_average = rows.macro_average


# Docs


def nexus_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    """Make docs of Nexus: the common columns, and ``signatures``, the functions that the prompt documents.

    Raises:
        ValueError: No gold of any row is a call.
    """

    def signatures(doc: dict) -> dict:
        golds = list(filter(None, map(nexus.gold_program, doc["answers"])))
        return {"signatures": nexus.headers(doc["prompt"], golds)}

    return _docs(dataset, nexus.gold_program, signatures)


def api_bank_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    """Make docs of API-Bank with the common columns.

    Raises:
        ValueError: No gold of any row is a call.
    """
    return _docs(dataset, read_calls, lambda _: {})


def bfcl_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    """Make docs of BFCL: the common columns, and ``declared``, the functions that the prompt declares, as JSON text.

    Raises:
        ValueError: No gold of any row is a call or lists possible answers.
    """

    def declared(doc: dict) -> dict:
        return {"declared": json.dumps(bfcl.declared(doc["prompt"], str(doc["subtask_name"])), sort_keys=True)}

    return _docs(dataset, bfcl.read_possible, declared)


def gorilla_docs(dataset: datasets.Dataset) -> datasets.Dataset:
    """Make docs of Gorilla: the common columns, and ``api_database``, the file of the hub's APIs from the join.

    Raises:
        ValueError: No gold of any row names a domain or an API.
    """
    return _docs(dataset, apibench.read_gold, lambda _: {}, "api_database")


def _docs(
    dataset: datasets.Dataset, read: Callable[[str], object], more: Callable[[dict], dict], *kept: str
) -> datasets.Dataset:
    docs = []
    for row in dataset:
        doc = {**rows.make_doc(row), "gold": next(filter(str.strip, row["input_correct_responses"]))}
        docs.append({**doc, **{name: row[name] for name in kept}, **more(doc)})
    if docs and not any(read(answer) is not None for doc in docs for answer in doc["answers"]):
        raise ValueError(
            f"none of the {len(docs)} golds is what this template assumes; the first is {docs[0]['gold'][:200]!r}: "
            "leave this task out, or change the template"
        )
    return datasets.Dataset.from_list(docs)


# Filters: they return the part of an answer that counts, as text for scoring


def nexus_program(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return answers that the notebook would run."""
    return _each(responses, docs, lambda text, _: nexus.program(calls.clean(text)))


def nexus_anywhere(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the program of each answer, or its calls among words or in code fences."""

    def find(text: str, _: dict) -> str | None:
        parsed = calls.anywhere(text)
        return nexus.program(calls.clean(text)) or (parsed and "; ".join(map(calls.render, parsed)))

    return _each(responses, docs, find)


def in_brackets(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the calls of the first ``[Name(…)]`` in each answer."""
    return _each(responses, docs, lambda text, _: _rendered(calls.bracketed(text)))


def anywhere(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the calls in each answer, also among words or in code fences."""
    return _each(responses, docs, lambda text, _: _rendered(calls.anywhere(text)))


def bfcl_decoded(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return answers that the leaderboard can read."""
    return _each(responses, docs, lambda text, doc: _bfcl_text(calls.clean(text), doc))


def bfcl_anywhere(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the calls in each answer, also among words, in code fences, in a line, or as JSON."""

    def find(text: str, doc: dict) -> str | None:
        readable = (_bfcl_text(piece, doc) for piece in calls.pieces(text))
        return next(filter(None, readable), None) or _rendered(calls.anywhere(text))

    return _each(responses, docs, find)


def _bfcl_text(text: str, doc: dict) -> str | None:
    return text if bfcl.decode(text, _language(doc)) is not None else None


def after_marker(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the code of each answer by the rule of its hub's evaluation."""

    def find(text: str, doc: dict) -> str | None:
        return _code(apibench.code_of(calls.unmarked(text), whole=apibench.HUBS[_hub(doc)].whole))

    return _each(responses, docs, find)


def all_code(responses: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Filter: return the code after ``api_call``, or the whole answer if nothing after it is code."""

    def find(text: str, _: dict) -> str | None:
        text = calls.unmarked(text)
        return _code(apibench.code_of(text, whole=False)) or _code(text)

    return _each(responses, docs, find)


def _code(text: str | None) -> str | None:
    return text if text and apibench.has_code(text) else None


def _rendered(parsed: list | None) -> str | None:
    return calls.render_calls(parsed) if parsed else None


def _each(responses: list[list[str]], docs: list[dict], find: Callable[[str, dict], str | None]) -> list[list[str]]:
    def short(text: str, doc: dict) -> str | None:
        extracted = find(text, doc)
        return extracted if extracted and len(extracted) <= calls.MAX_LENGTH else None

    return rows.each(responses, docs, short)


# Scoring


def nexus_results(doc: dict, results: list[str]) -> dict:
    """Score an answer of Nexus with the metrics of `_verdict`."""
    golds = list(filter(None, map(nexus.gold_program, doc["answers"])))
    return _verdict(doc, results, golds, lambda answer, gold: nexus.grade(answer, gold, doc["signatures"]))


def bfcl_results(doc: dict, results: list[str]) -> dict:
    """Score an answer of BFCL with the metrics of `_verdict`.

    If no call is requested, an answer without calls is right, and does not count as unextracted.
    """
    golds = [gold for gold in map(bfcl.read_possible, doc["answers"]) if gold is not None]
    declares = json.loads(doc["declared"])

    def fits(answer: str, gold: list) -> bool:
        if not gold:
            return not any(bfcl.decode(answer, "Python") or ())
        decoded = bfcl.decode(answer, declares["language"])
        return decoded is not None and bfcl.grade(decoded, gold, declares)

    if results[0] == rows.NO_MATCH and [] in golds:
        return {"acc": 1.0, "acc_macro": (doc["subtask_name"], 1.0), "unextracted": 0.0, "ungraded": 0.0}
    return _verdict(doc, results, golds, fits)


def gorilla_results(doc: dict, results: list[str]) -> dict:
    """Score an answer of Gorilla with the metrics of `_verdict`. It is right if its API has the gold's domain.

    ``hallucination`` is 1 if the answer calls no API of the database.

    Raises:
        OSError: The pack lacks the database.
    """
    database = apibench.read_database(Path(__file__).resolve().parent / doc["api_database"], _hub(doc))
    known = {api.domain for api in database if api is not None}
    golds = [_domain(*gold, database) for gold in map(apibench.read_gold, doc["answers"]) if gold is not None]
    api = apibench.meant(results[0], database) if results[0] != rows.NO_MATCH else None
    return {
        **_verdict(
            doc,
            results,
            [domain for domain in golds if domain in known],
            lambda _, domain: api is not None and api.domain == domain,
        ),
        "hallucination": float(api is None),
    }


def api_bank_results(doc: dict, results: list[str]) -> dict:
    """Score an answer of API-Bank with the metrics of `_verdict`.

    ``acc_rougeL`` scores free text by ROUGE-L, where ``acc`` requires the exact text.
    """
    golds = [gold for gold in map(read_calls, doc["answers"]) if gold is not None]
    answer = calls.whole(results[0]) or []
    judged = [api_bank.grade(answer, gold) for gold in golds]
    return {
        **_verdict(doc, results, golds, lambda _, gold: bool(answer) and api_bank.grade(answer, gold)[0]),
        "acc_rougeL": max((score for _, score in judged), default=0.0),
    }


def _verdict(doc: dict, results: list[str], golds: list, fits: Callable) -> dict:
    """Return the metrics of an answer.

    - ``acc``: 1 if it matches any gold.
    - ``acc_macro``: the same with the subtask.
    - ``unextracted``: 1 if the filter found no call.
    - ``ungraded``: 1 if no gold could be read. Every answer then counts as wrong.
    """
    is_extracted = results[0] != rows.NO_MATCH
    right = float(is_extracted and any(fits(results[0], gold) for gold in golds))
    return {
        "acc": right,
        "acc_macro": (doc["subtask_name"], right),
        "unextracted": float(not is_extracted),
        "ungraded": float(not golds),
    }


def read_calls(text: str) -> list | None:
    """Return the calls of a gold, or None.

    A gold has calls and nothing else, is a list of texts with a call each, or has ``[name(…)]`` among other words.
    """
    parsed = calls.whole(text) or calls.bracketed(text)
    if parsed:
        return parsed
    listed = calls.read_object(text)
    if not isinstance(listed, list) or not listed or not all(isinstance(item, str) for item in listed):
        return None
    try:
        return [calls.parse(item) for item in listed]
    except calls.ParseError:
        return None


def _domain(domain: str | None, code: str | None, database: tuple) -> str | None:
    """Return a gold's domain. If the gold only has a call, it is the domain of the called API."""
    if domain is None and code is not None:
        api = apibench.meant(code, database)
        domain = api.domain if api is not None else None
    return domain


def _hub(doc: dict) -> str:
    return Path(doc["api_database"]).stem.removeprefix("gorilla_")


@functools.lru_cache(maxsize=4096)
def _language_of(declared: str) -> str:
    return json.loads(declared)["language"]


def _language(doc: dict) -> str:
    """Return the language in which an answer is read. It is Python if no call is requested."""
    return "Python" if "[]" in doc["answers"] else _language_of(doc["declared"])
