"""Diagnoses why a copy differs from a baseline: which faults leave such a trace.

Signatures are tested with deliberate faults of a tiny Llama (`causes.FAULTS`). docs/method/same_model.md
has how often each is recognised or mistaken. Some need probes; without probes a finding names all possible groups.
"""

from __future__ import annotations

from meta_eval.plugins.tokens.causes import FoundCause
from meta_eval.plugins.tokens.comparison import TableComparison
from meta_eval.plugins.tokens.diagnosis_case import Case, ProbePair
from meta_eval.plugins.tokens.probe_signatures import PROBE_SIGNATURES
from meta_eval.plugins.tokens.table_pairing import Pair
from meta_eval.plugins.tokens.table_signatures import TABLE_SIGNATURES

# The first match is the finding.
SIGNATURES = sorted((*PROBE_SIGNATURES, *TABLE_SIGNATURES), key=lambda signature: signature.precedence)


def diagnose(comparison: TableComparison, pair: Pair, probing: ProbePair | None = None) -> FoundCause | None:
    """Find why the copy differs from the baseline; None if there is no finding.

    Args:
        comparison: The comparison.
        pair: The tables that were compared.
        probing: The probes of both; None unless both have probes, and then findings name more groups.
    """
    case = Case(comparison, pair, probing)
    findings = (signature.check(case) for signature in SIGNATURES if signature.is_due(case))
    return next((finding for finding in findings if finding is not None), None)
