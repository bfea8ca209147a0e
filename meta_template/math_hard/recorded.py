r"""Compare answers with Meta's recorded golds, which are numbers with three significant digits.

Meta's golds show how they were made. Minerva's normalisation is applied, the right side of ``=`` is evaluated, and the
value is rounded to three digits. ``6\sqrt{7}`` is recorded as ``1.59e+1``.

Source: the verdicts on 1,324 recorded answers of Llama-3.1-8B-Instruct follow these digits and ignore a difference of
up to half a hundredth. 1212 counts for 1208 and 0.328 for 0.326. But 991 does not count for 990, nor 0.759 for 0.753.
"""

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from . import values

HALF_A_HUNDREDTH = Decimal("0.005")

_ROUNDED = re.compile(r"-?\d\.\d\de[+-]\d+")
_DIGITS = Context(prec=40, rounding=ROUND_HALF_EVEN)


def is_number(gold: str) -> bool:
    """Return whether a recorded gold is a number with three digits, or ``0``, which Meta writes without them."""
    return gold == "0" or _ROUNDED.fullmatch(gold) is not None


def holds_number(gold: str) -> bool:
    """Return whether a recorded gold contains numbers with three digits, as in ``[5.00e-01,1.33e+00]``."""
    return _ROUNDED.search(gold) is not None


def three_digits(text: str) -> str | None:
    r"""Return the value of an expression with three digits as Meta does: ``1.59e+1`` for ``6\sqrt{7}``, ``0`` for zero.

    None means that it is not a real number.
    """
    value = _real(text)
    if value is None:
        return None
    return f"{_DIGITS.plus(value):.2e}" if value else "0"


def is_near(text: str, gold: str) -> bool:
    """Return whether an expression has the gold's three digits, or differs by at most `HALF_A_HUNDREDTH`."""
    value = _real(text)
    if value is None:
        return False
    recorded, rounded = Decimal(gold), Decimal(three_digits(text) or "NaN")  # numbers, because e+3 is e+03
    return rounded == recorded or abs(_DIGITS.subtract(value, recorded)) <= HALF_A_HUNDREDTH


def rounds_to(gold: str, answer: str) -> bool:
    """Return whether a part of a gold is a fraction, but not an integer, with the same three digits as the answer's."""
    value = values.constant(gold)
    is_fraction = isinstance(value, Fraction) and value.denominator != 1
    return is_fraction and three_digits(gold) == three_digits(answer)


def _real(text: str) -> Decimal | None:
    """Return the value of an expression with up to 40 digits, or None if it is not a real number."""
    value = values.constant(text)
    if isinstance(value, Fraction):
        return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Decimal(repr(value)) if isinstance(value, float) else None
