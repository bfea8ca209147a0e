r"""Make docs of MATH, extract the last \boxed{} of an answer, and score it.

There are three verdicts:

- ``exact_match``: the boxed answer equals the original's gold (equivalence.py). The recipe asks the same.
- ``final_em``: Meta's published metric. Meta's golds are numbers with three significant digits, so an answer with the
  same three digits counts.
- ``math_verify``: math-verify's verdict on the whole output.

sympy and math-verify run in separate processes (algebra.py), which math_grader.py starts. A filter sees the answers of
all docs together and has them graded on all cores. The scoring of a doc then looks its verdicts up.
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
PROCESSES = None  # for grading; None means as many as there are cores

logger = logging.getLogger("meta_eval.math")
_decided: dict = {}  # verdicts on gold and answer that needed no process

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")
equivalence, math_grader, recorded = map(load.module, (".equivalence", ".math_grader", ".recorded"))
plain = load.module(".normalise").plain
macro_average = rows.macro_average


# Docs


def make_doc(row: dict) -> dict:
    r"""Make a doc with the common columns.

    The gold is the boxed answer of the original's solution. ``answers`` has Meta's recorded golds, which are usually
    numbers with three digits. If a row has none, ``answers`` has the gold.

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
    """Filter: return the answers unchanged, and compute their verdicts for `process_results` on all cores."""
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
    r"""Score an answer. No text of a model raises an exception here.

    ``unextracted`` is 1 if the answer has no box. ``ungraded`` is 1 if a grader ran out of time or memory or crashed.
    Its verdict then counts as wrong, and a warning names the question.
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
    r"""Return whether Meta counts an answer as right, by its recorded gold.

    If the recorded gold is a number, any of these is enough:

    - The answer has the same text as the original's gold.
    - The value to the right of its last ``=`` has the same three significant digits.
    - This value differs by at most `recorded.HALF_A_HUNDREDTH`.

    Meta's verdicts follow these rules: 1212 counts for 1208, and 1/17280 for 1/5120. Meta read a mixed number as a
    product, so it only counts in the original's spelling.

    If the recorded gold contains rounded numbers, as in an interval or a point, each fraction of the gold counts at
    three digits. In all other cases ``exact`` decides.
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
    """Return the grader of all docs."""
    grader = math_grader.Grader(LIMIT_S, processes=PROCESSES)
    atexit.register(grader.close)
    return grader


def _require_graders() -> None:
    """Fail when lm-eval loads the task, before any answer is generated.

    Raises:
        ImportError: sympy's LaTeX parser or math-verify cannot work here.
    """
    try:
        versions = [importlib.metadata.version(name) for name in ("antlr4-python3-runtime", "sympy", "math-verify")]
    except importlib.metadata.PackageNotFoundError:
        versions = [""]
    if not versions[0].startswith("4.11"):  # the version that sympy requires so far; later versions of sympy may differ
        _grader().check()


# Extraction


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed``, or of the last ``\fbox`` if there is no ``\boxed``, or None.

    ``\boxed{…}`` ends at the matching brace, ``\boxed 5`` at the end of the formula or line. None is returned for an
    empty box, and if the last box never closes. Such an answer was cut off, so an earlier box is not the answer.
    """
    for command in (r"\\boxed", r"\\fbox"):
        starts = [match.end() for match in re.finditer(command + r"(?![A-Za-z])", text)]
        if starts:
            return _argument(text, starts[-1])
    return None


def extract(output: str) -> str | None:
    """Return the answer of an output, which `meta-eval verify` shows beside the gold."""
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
