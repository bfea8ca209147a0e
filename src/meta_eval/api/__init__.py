"""The Python API: the commands as functions, with the same meaning and the same errors.

Functions print nothing. Warnings go to the logger ``meta_eval``.

lm-eval, engines in process, and the code of templates and packs work in another process, so they change nothing in
yours: see `meta_eval.base.apart`. You may call from several threads. With the environment variable META_EVAL_WORKER=0
they work in your process, for a debugger; then make one call at a time.

`verify` is in its own package. This package holds the functions that need several packages.
"""

from __future__ import annotations

from meta_eval.api.asking import export, grade, prepare, run
from meta_eval.api.judging import compare, compare_candidates, compare_texts, report

__all__ = [
    "compare",
    "compare_candidates",
    "compare_texts",
    "export",
    "grade",
    "prepare",
    "report",
    "run",
]
