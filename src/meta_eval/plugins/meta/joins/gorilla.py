"""Gorilla's databases of APIs. APIBench's official evaluation judges every call by them.

Files of the hub's dataset, and of ``data/api`` in the repository (Patil et al. 2023, arXiv:2305.15334).
"""

from __future__ import annotations

from meta_eval.plugins.meta.joins.join import Original, TableJoin


def _database(name: str, file: str) -> TableJoin:
    original = Original(id="gorilla-llm/APIBench")
    return TableJoin(name, original, split=file, columns=("domain", "api_call"), brings="api_database")


HUGGINGFACE = _database("gorilla_huggingface", "huggingface_api")
TORCHHUB = _database("gorilla_torchhub", "torchhub_api")
TENSORFLOWHUB = _database("gorilla_tensorflowhub", "tensorflowhub_api")
