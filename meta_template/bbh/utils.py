"""BIG-Bench Hard: an answer is right when it is the target to the letter, as the benchmark's authors count."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")
macro_average = rows.macro_average


def process_results(doc: dict, results: list[str]) -> dict:
    """``em``: what was extracted is the gold, to the letter: brackets, signs, decimal points and case count.

    ``em_macro`` is the same with its subtask. ``exact_match`` is the recipe's, without case and punctuation: it takes
    20 for -20, and any Dyck word for another of as many brackets.
    """
    scores = rows.process_results(doc, results)
    right = float(not scores["unextracted"] and results[0].strip() == doc["gold"].strip())
    return {"em": right, "em_macro": (doc["subtask_name"], right), **scores}
