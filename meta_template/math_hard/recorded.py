r"""Meta's recorded golds: numbers of three significant digits, and what counts as one of them.

What Meta did to its golds shows in them: Minerva's normalisation, the right side of ``=``, evaluation, three digits.
``6\sqrt{7}`` is recorded as ``1.59e+1``. That its verdicts follow these digits, and take less than half a hundredth for
nothing, was seen on 1,324 recorded answers of Llama-3.1-8B-Instruct: 1212 counts for 1208 and 0.328 for 0.326, but
991 not for 990 and 0.759 not for 0.753.
"""

import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from . import values

HALF_A_HUNDREDTH = Decimal("0.005")

_ROUNDED = re.compile(r"-?\d\.\d\de[+-]\d+")
_DIGITS = Context(prec=40, rounding=ROUND_HALF_EVEN)


def is_number(gold: str) -> bool:
    """Whether a recorded gold is a number of three digits, or the ``0`` that Meta leaves as it is."""
    return gold == "0" or _ROUNDED.fullmatch(gold) is not None


def holds_number(gold: str) -> bool:
    """Whether a recorded gold has numbers of three digits in it: ``[5.00e-01,1.33e+00]``."""
    return _ROUNDED.search(gold) is not None


def three_digits(text: str) -> str | None:
    r"""The value of an expression as Meta records it: ``1.59e+1`` for ``6\sqrt{7}``, ``0`` for nothing.

    None where it is no real number.
    """
    value = _real(text)
    if value is None:
        return None
    return f"{_DIGITS.plus(value):.2e}" if value else "0"


def is_near(text: str, gold: str) -> bool:
    """Whether an expression is the recorded number to Meta: the same three digits, or about (`HALF_A_HUNDREDTH`)."""
    value = _real(text)
    if value is None:
        return False
    recorded, rounded = Decimal(gold), Decimal(three_digits(text) or "NaN")  # e+3 and e+03 are one exponent
    return rounded == recorded or abs(_DIGITS.subtract(value, recorded)) <= HALF_A_HUNDREDTH


def rounds_to(gold: str, answer: str) -> bool:
    """Whether a part of a gold is a fraction, no whole number, and the answer's part has its three digits."""
    value = values.constant(gold)
    is_fraction = isinstance(value, Fraction) and value.denominator != 1
    return is_fraction and three_digits(gold) == three_digits(answer)


def _real(text: str) -> Decimal | None:
    """The value of an expression to forty digits; None where it is no real number."""
    value = values.constant(text)
    if isinstance(value, Fraction):
        return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Decimal(repr(value)) if isinstance(value, float) else None
