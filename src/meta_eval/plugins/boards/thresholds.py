"""The thresholds of this plug-in, with their reasons. Shares are from 0 to 1; a point is 0.01."""

from __future__ import annotations

# Tolerance of a metric that lighteval recorded. It sums exponentials in another order, of numbers with 32 bits.
SAME_RECORDED_METRIC = 1e-4
