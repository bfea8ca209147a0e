"""What a program calls: the jobs of the command line as functions, with the same meaning and the same errors.

`verify` is that of its package; here stands what takes several packages.

What a user must know besides is logged as a warning by the logger ``meta_eval``; nothing is printed.

They may be called from several threads. lm-eval and the code of templates and packs run in one thread at a time. What a
thread of the program prints, logs and warns meanwhile goes where it always goes, with one exception: while vLLM, or a
model of lm-eval, starts or answers in this process, what the process prints goes to the log of that engine.
"""

from __future__ import annotations

from meta_eval.api.asking import export, fidelity, grade, prepare, run
from meta_eval.api.judging import compare, fidelity_report, report

__all__ = ["compare", "export", "fidelity", "fidelity_report", "grade", "prepare", "report", "run"]
