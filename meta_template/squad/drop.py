"""DROP: lm-eval's own copy of the official metric (allennlp, drop_em_and_f1.py).

The metric compares words as sets, and numbers by value. Hyphens separate words. An answer that misses every number of
the gold scores 0. The script rounds each F1 to two decimals.

Each of Meta's correct responses counts as an answer. If a response holds several spans, their words count together.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import scipy.optimize  # noqa: F401 (get_metrics imports it, but only for the first answer: too late to find it missing)
from lm_eval.tasks.drop.utils import get_metrics

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

NO_MATCH = load.module(".._common.rows").NO_MATCH


def process_results(doc: dict, results: list[str]) -> dict:
    """Score ``f1``, which Meta publishes, and ``exact_match``, both the best over the correct responses."""
    answer = results[0]
    if answer == NO_MATCH:
        return {"f1": 0.0, "exact_match": 0.0, "unextracted": 1.0}
    scores = [get_metrics([answer], [gold]) for gold in doc["answers"]]
    return {
        "f1": float(max(f1 for _, f1 in scores)),
        "exact_match": float(max(exact for exact, _ in scores)),
        "unextracted": 0.0,
    }
