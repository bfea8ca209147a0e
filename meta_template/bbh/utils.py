"""Score BIG-Bench Hard by exact text, as the benchmark's authors do."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rows = load.module(".._common.rows")
macro_average = rows.macro_average


def process_results(doc: dict, results: list[str]) -> dict:
    """Score ``em``: whether the extracted answer is the gold, with case, signs, brackets and decimal points.

    ``em_macro`` is the same with its subtask. ``exact_match`` is the recipe's and ignores case and punctuation. It
    accepts 20 for -20, and any Dyck word for another with as many brackets.
    """
    scores = rows.process_results(doc, results)
    right = float(not scores["unextracted"] and results[0].strip() == doc["gold"].strip())
    return {"em": right, "em_macro": (doc["subtask_name"], right), **scores}
