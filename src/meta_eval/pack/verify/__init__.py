"""verify: checks everything after the model without a GPU.

A record has answers and their verdicts. verify runs a pack through lm-eval's evaluator with the recorded answers
instead of a model, and compares every verdict with the recorded verdict. The new verdicts are kept next to the pack
(`meta_eval.pack.baseline`); report pairs runs with them.
"""

from __future__ import annotations

from meta_eval.pack.baseline import find_verify_folder
from meta_eval.pack.verify.pack_verification import verify
from meta_eval.pack.verify.tallies import Proof, ProofStatus, TaskProof

__all__ = ["Proof", "ProofStatus", "TaskProof", "find_verify_folder", "verify"]
