"""verify: prove everything behind the model, before a GPU is paid for.

Meta's datasets hold what its own models answered and how Meta judged that. So a pack is run through lm-eval's own
evaluator with those answers in the place of a model, and every verdict is compared with
Meta's. What the graders said is kept beside the pack (`meta_eval.results.baseline`): report pairs runs with it.
"""

from __future__ import annotations

from meta_eval.results.baseline import verify_folder
from meta_eval.verification.pack_verification import verify
from meta_eval.verification.proof import Proof, Status, TaskProof

__all__ = ["Proof", "Status", "TaskProof", "verify", "verify_folder"]
