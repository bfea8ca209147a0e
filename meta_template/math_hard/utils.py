r"""MATH: rows to docs, the last \boxed{} of an answer, and is it the gold?

Three verdicts stand side by side. ``exact_match`` asks whether what is boxed equals the original's gold: the recipe's
question, answered by equivalence.py. ``final_em`` is what Meta published: its golds are numbers of three significant
digits, so an answer with these three digits counts. ``math_verify`` is math-verify's own opinion of the whole output.
What needs sympy happens in processes of their own (math_grader.py asks, algebra.py answers). A filter, which sees the
answers of all docs at once, has them all graded ahead on all cores; the scoring of a doc then finds its verdicts.
"""

import atexit
import functools
import importlib.metadata
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

LIMIT_S = 5.0  # for one verdict of one grader; the recipe's limit
PROCESSES = None  # that grade; None for one a core

logger = logging.getLogger("meta_eval.math")
_decided: dict = {}  # what gold and answer are to each other, where no process had to be asked

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")
equivalence, math_grader, recorded = map(load.module, (".equivalence", ".math_grader", ".recorded"))
plain = load.module(".normalise").plain
macro_average = rows.macro_average


# Docs


def make_doc(row: dict) -> dict:
    r"""The columns that every doc of every task has.

    The gold is what the original's solution boxes. What Meta recorded as correct, a number of three digits as a rule,
    is in ``answers``; a row without any has the gold there too.

    Raises:
        ValueError: The solution has no boxed answer.
    """
    gold = last_boxed(row["solution"] or "")
    if gold is None:
        raise rows.refused(
            row, r"the solution in the original dataset has no \boxed{} answer, so that there is no gold"
        )
    answers = [answer for answer in row.get("input_correct_responses") or [] if answer.strip()]
    doc = rows.make_doc({**row, "input_correct_responses": answers or [gold]})
    return {**doc, "gold": gold, "subtask_name": row.get("subtask_name") or row.get("type")}


process_docs = rows.docs_by(make_doc)


# Filters


def grade_ahead(resps: list[list[str]], docs: list[dict]) -> list[list[str]]:
    """Leaves the answers as they are, and has their verdicts ready for `process_results`, from all cores."""
    outputs = [
        (doc, output, last_boxed(output)) for some, doc in zip(resps, docs, strict=True) for output in some if output
    ]
    open_ones = [output for output in outputs if output[2] is None or plain(output[2]) != plain(output[0]["gold"])]
    with ThreadPoolExecutor(1) as beside:
        opinions = beside.submit(
            _grader().grade_all,
            [("math_verify", doc["gold"], output) for doc, output, _ in open_ones if output.strip()],
        )
        requests = []

        def later(gold: str, answer: str) -> tuple[bool, str]:
            requests.append(("sympy", gold, answer))
            return False, "not asked yet"

        for doc, _, answer in open_ones:
            if answer is not None:
                verdict = equivalence.equal(doc["gold"], answer, later)
                if verdict.failure is None:
                    _decided[doc["gold"], answer] = verdict
        opinions.result()
    _grader().grade_all(requests)
    return resps


# Scoring


def process_results(doc: dict, results: list[str]) -> dict:
    r"""Score one answer; nothing that a model writes raises here.

    ``unextracted`` is 1 when the answer boxes nothing. ``ungraded`` is 1 when a grader ran out of time or memory or
    crashed: that counts as wrong, and a warning names the question.
    """
    output = results[0] or ""
    answer = last_boxed(output)
    exact = final = verified = False
    failures = []
    if answer is not None and plain(answer) == plain(doc["gold"]):
        exact = final = verified = True
    else:
        if answer is not None:
            pair = doc["gold"], answer
            exact, failure = _decided.get(pair) or equivalence.equal(*pair, _sympy)
            final = counts_for_meta(doc, answer, exact)
            failures += [f"sympy: {failure}"] if failure else []
        if output.strip():
            verified, failure = _grader().grade("math_verify", doc["gold"], output)
            failures += [f"math-verify: {failure}"] if failure else []
    if failures:
        logger.warning(
            "question %s: not graded, so it counts as wrong (%s)", doc["input_question_hash"], "; ".join(failures)
        )
    return {
        "exact_match": float(exact),
        "exact_match_macro": (doc["subtask_name"], float(exact)),
        "final_em": float(final),
        "math_verify": float(verified),
        "unextracted": float(answer is None),
        "ungraded": float(bool(failures)),
    }


def counts_for_meta(doc: dict, answer: str, exact: bool) -> bool:
    r"""Whether Meta counts an answer as right, by the gold that it recorded.

    A recorded number decides alone: the answer says the same as the original's gold to the letter, or what stands to
    the right of its last ``=`` has the number's three significant digits, or is less than half a hundredth off. So
    Meta's verdicts are: 1212 counts for 1208, 1/17280 for 1/5120, and a mixed number, which Meta read as a product,
    only as the original writes it. Where fractions are rounded inside something longer (an interval, a point), they
    count at three digits each. Where nothing is rounded, or nothing recorded, ``exact`` decides: is it equal?
    """
    golds = doc.get("answers") or []
    numbers = [gold for gold in golds if recorded.is_number(gold)]
    if numbers:
        value = equivalence.value_side(answer)
        same_text = plain(answer) == plain(doc["gold"])
        return same_text or any(recorded.is_near(value, gold) for gold in numbers)
    if not exact and any(recorded.holds_number(gold) for gold in golds):
        return equivalence.equal(doc["gold"], answer, _sympy, rounded=True).equal
    return exact


def _sympy(gold: str, answer: str) -> tuple[bool, str | None]:
    return _grader().grade("sympy", gold, answer)


@functools.cache
def _grader():
    """One for all docs."""
    grader = math_grader.Grader(LIMIT_S, processes=PROCESSES)
    atexit.register(grader.close)
    return grader


def _require_graders() -> None:
    """Fail when lm-eval loads the task, not when the answers are paid for.

    Raises:
        ImportError: sympy's LaTeX parser or math-verify cannot work here.
    """
    try:
        versions = [importlib.metadata.version(name) for name in ("antlr4-python3-runtime", "sympy", "math-verify")]
    except importlib.metadata.PackageNotFoundError:
        versions = [""]
    if not versions[0].startswith("4.11"):  # what every sympy so far asks for; a later one may take another
        _grader().check()


# Extraction


def last_boxed(text: str) -> str | None:
    r"""What the last ``\boxed`` of a text holds, or the last ``\fbox`` of a text without; None when that is nothing.

    ``\boxed{…}`` ends at the brace that matches, ``\boxed 5`` at the end of the formula or line. A last box that never
    closes is an answer cut off, and an earlier box is not the answer then.
    """
    for command in (r"\\boxed", r"\\fbox"):
        starts = [match.end() for match in re.finditer(command + r"(?![A-Za-z])", text)]
        if starts:
            return _argument(text, starts[-1])
    return None


def extract(output: str) -> str | None:
    """What counts as the answer of an output: `meta-eval verify` shows it beside the gold."""
    return last_boxed(output)


def _argument(text: str, start: int) -> str | None:
    opening = re.compile(r"\s*\{").match(text, start)
    if opening is None:
        bare = re.compile(r"(?:(?!\\[)\]])[^$\n])*").match(text, start)
        return bare[0].strip().rstrip(".") or None
    depth = 1
    for brace in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, opening.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[opening.end() : brace.start()].strip() or None
    return None


_require_graders()
