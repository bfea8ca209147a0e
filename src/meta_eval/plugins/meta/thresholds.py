"""The thresholds of this plug-in, with their reasons. Shares are from 0 to 1; a point is 0.01."""

from __future__ import annotations

# Tolerance of two published roundings of a number, in percentage points.
SAME_PUBLISHED = 0.05

# Grader validation: below this share of equal verdicts, a comparison shows nothing. The requirement of a task in verify
# is its template's `min_agreement`.
MIN_VALIDATED_AGREEMENT = 0.98
# Minimum number of rows or answers for a validation. Fewer are only examples.
MIN_VALIDATED_ROWS = 100
