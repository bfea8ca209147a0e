"""Which requests were in flight at the same time, and whether chance explains it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from meta_eval.plugins.load.level_decision import binomial_tail
from meta_eval.plugins.load.thresholds import FALSE_ALARM, SIGNS

_Doc = tuple[str, int]
Span = tuple[float, float]


def find_in_flight(owners: Mapping[_Doc, _Doc], spans: Mapping[_Doc, Span]) -> tuple[set[_Doc], bool]:
    """Find the answers whose text is also that of a request that was in flight at the same time.

    Stock sentences stand in the answers to many questions. Docs of a level are asked in a random order, so whose
    sentence it is does not depend on who is in flight. A fault of the server takes text of requests in flight.

    Args:
        owners: By doc another doc, whose text its answer has.
        spans: By doc the start and end of its request, in seconds.

    Returns: The docs whose owner was in flight; and whether chance may explain that so many are. Requests of the
        lengths a and b, begun at random in the time T, meet with the probability (a + b) / T (binomial tail,
        `FALSE_ALARM`).
    """
    known = {doc: owner for doc, owner in owners.items() if doc in spans and owner in spans}
    met = {doc for doc, owner in known.items() if _meet(spans[doc], spans[owner])}
    if len(met) < SIGNS:
        return met, True
    begins, ends = sorted(begin for begin, _ in spans.values()), sorted(end for _, end in spans.values())
    others = len(spans) - 1
    shares = {  # of the other requests that are in flight at some time of a request
        doc: (bisect_right(begins, end) - bisect_left(ends, begin) - 1) / others for doc, (begin, end) in spans.items()
    }
    mean = sum(shares.values()) / len(shares)
    chances = [min(1.0, max(0.0, shares[doc] + shares[owner] - mean)) for doc, owner in known.items()]
    return met, binomial_tail(len(met), len(known), sum(chances) / len(chances)) > FALSE_ALARM


def _meet(a: Span, b: Span) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
