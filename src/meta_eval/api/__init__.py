"""The Python API: the commands as functions, with the same meaning and the same errors.

Functions print nothing. Warnings go to the logger ``meta_eval``.

You may call them from several threads. lm-eval and the code of templates and packs run in a single thread at a time.
Output, logs and warnings of your other threads go where they always go. There is an exception: while vLLM or a model of
lm-eval starts or answers in this process, all output of the process goes to that engine's log.

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
