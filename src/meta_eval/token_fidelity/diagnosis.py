"""Where a copy differs from a baseline, and which mistakes of a set-up leave such a trace.

Each signature was made on purpose with a tiny Llama (`causes.FAULTS`); docs/method/fidelity.md has how often each is
named and what it is taken for. The tokens of a table do not tell all of them apart: probes do, and without them a
finding names all that it may be.
"""

from __future__ import annotations

from meta_eval.token_fidelity.causes import Finding
from meta_eval.token_fidelity.comparison import TableComparison
from meta_eval.token_fidelity.diagnosis_case import Case, ProbePair
from meta_eval.token_fidelity.probe_signatures import PROBE_SIGNATURES
from meta_eval.token_fidelity.table_pairing import Pair
from meta_eval.token_fidelity.table_signatures import TABLE_SIGNATURES
from meta_eval.token_fidelity.token_columns import Vocabulary

# The first that is found is the finding.
SIGNATURES = sorted((*PROBE_SIGNATURES, *TABLE_SIGNATURES), key=lambda signature: signature.precedence)


def diagnose(
    comparison: TableComparison, both: Pair, vocabulary: Vocabulary | None = None, probing: ProbePair | None = None
) -> Finding | None:
    """Find what sets the copy apart from the baseline; None for nothing.

    Args:
        comparison: The comparison.
        both: What was compared.
        vocabulary: Of the tokenizer: without it nobody knows which tokens end an answer.
        probing: The probes of both; None where not both were asked, and then more is named together.
    """
    case = Case(comparison, both, vocabulary, probing)
    findings = (signature.check(case) for signature in SIGNATURES if signature.is_due(case))
    return next((finding for finding in findings if finding is not None), None)
