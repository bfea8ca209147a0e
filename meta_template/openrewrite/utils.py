"""Score a rewritten text by ROUGE-L, the longest common subsequence of words with a reference."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))

rouge = load.module(".._common.rouge")


def process_results(doc: dict, results: list[str]) -> dict:
    """Score ``rougeL``: rouge-score's F-measure from 0 to 1, the best over the references.

    ``unextracted`` counts empty answers.
    """
    output = (results[0] or "").strip()
    return {"rougeL": rouge.best(output, doc["answers"])[0], "unextracted": float(not output)}
