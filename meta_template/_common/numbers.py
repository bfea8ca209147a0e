r"""Read the numbers of a text: ``18``, ``18.0``, ``$18`` and ``١٨`` are equal.

Digits of every script count. Languages group thousands in different ways:

- A mark that is repeated groups: 1,234,567 and 1.234.567 and the Indian 1,00,000.
- Of two different marks the last is the decimal mark: 1,234.5 and 1.234,5.
- A single comma before exactly three digits groups.
- A single point before exactly three digits is the decimal mark. In the languages of ``DECIMAL_COMMA`` it groups,
  because MGSM asks for whole numbers there and models write both 1.234 and 1,234.
- A single mark before any other number of digits is the decimal mark.

Text without a value by these rules is no answer.
"""

import re
import unicodedata
from fractions import Fraction

# Languages that write a decimal comma and group thousands with a point or a space.
DECIMAL_COMMA = frozenset(("de", "es", "fr", "ru"))

# Characters of a number. Longer numbers are no answer, and Python refuses to parse very long ones.
LONGEST = 60

_NO_BREAK = "\u00a0\u2009\u202f"  # spaces that occur only inside numbers
_MARKS = rf"[.,'\u2019\u066b\u066c{_NO_BREAK}]"


def _compile_pattern(*, spaces: bool) -> re.Pattern:
    groups = r"\d{1,3}(?:[ ]\d{3})+(?![\d])|" if spaces else ""
    return re.compile(
        r"(?P<minus>(?<![\dA-Za-z)\]%])[-\u2212\u2013\ufe63\uff0d])?"  # not the minus of 7-5
        r"(?:\\?[$€£¥₹฿₽][ ]?(?P<inner_minus>[-\u2212])?)?"
        rf"(?P<number>{groups}\d+(?:{_MARKS}\d+)*|(?<!\d)[.,]\d+)(?:/(?P<below>\d+))?"
    )


_NUMBER = _compile_pattern(spaces=False)
_NUMBER_WITH_SPACES = _compile_pattern(spaces=True)
_PLAIN_MARKS = (
    (re.compile(r"(?<=\d)(?:\{,\}|\\,!|\\,)(?=\d{3})"), ","),  # thousands in TeX
    # Full-width marks between full-width digits. Elsewhere they separate the numbers of a list.
    (re.compile("(?<=[\uff10-\uff19])\uff0c(?=[\uff10-\uff19])"), ","),
    (re.compile("(?<=[\uff10-\uff19])\uff0e(?=[\uff10-\uff19])"), "."),
)


def whole(text: str) -> str | None:
    """Return the value of a text that is a number with at most quotation marks and a full stop, else None."""
    match = _NUMBER.fullmatch(text.strip().strip('"').rstrip(".").strip())
    return _read_value(match, None) if match else None


def last(text: str, language: str | None) -> str | None:
    """Return the last number of a text by the rules of its language (a code such as ``de`` or None), else None."""
    pattern = _NUMBER_WITH_SPACES if language in DECIMAL_COMMA else _NUMBER
    values = (_read_value(match, language) for match in reversed(list(pattern.finditer(_replace_marks(text)))))
    return next((value for value in values if value is not None), None)


def _replace_marks(text: str) -> str:
    for pattern, replacement in _PLAIN_MARKS:
        text = pattern.sub(replacement, text)
    return text


def _read_value(match: re.Match, language: str | None) -> str | None:
    """Return the value as ``-12``, ``0.5`` or, if decimals do not end, ``1/3``. Equal values give equal texts."""
    number, below = match["number"], match["below"]
    if max(len(number), len(below or "")) > LONGEST:
        return None
    plain = _to_decimal("".join(_to_ascii(letter) for letter in number), language)
    if plain is None:
        return None
    value = Fraction(plain)
    if below is not None and (divisor := int(below)):
        value /= divisor
    if match["minus"] or match["inner_minus"]:
        value = -value
    return _format_value(value)


def _to_ascii(letter: str) -> str:
    digit = unicodedata.decimal(letter, None)
    return str(digit) if digit is not None else {"\u066b": "."}.get(letter, letter)


def _to_decimal(number: str, language: str | None) -> str | None:
    """Return ASCII digits with at most a decimal point, or None if the marks form no number."""
    number = re.sub(rf"(?<=\d)['\u2019\u066c{_NO_BREAK} ](?=\d)", "", number)
    marks = {mark: number.count(mark) for mark in ",." if mark in number}
    if len(marks) == 2:
        decimal = max(marks, key=number.rindex)
        group = "," if decimal == "." else "."
        whole, _, part = number.rpartition(decimal)
        return f"{whole.replace(group, '')}.{part}" if marks[decimal] == 1 and _has_groups(whole, group) else None
    if not marks:
        return number
    (mark,) = marks
    if marks[mark] > 1:
        return number.replace(mark, "") if _has_groups(number, mark) else None
    if (mark == "," or language in DECIMAL_COMMA) and _has_groups(number, mark):
        return number.replace(mark, "")
    return number.replace(",", ".")


def _has_groups(number: str, mark: str) -> bool:
    """Whether the marks separate thousands, or lakhs and crores. A number that begins with 0 has no groups."""
    mark = re.escape(mark)
    return bool(re.fullmatch(rf"[1-9]\d{{0,2}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}", number))


def _format_value(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return str(value)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    sign, whole = "-" if value < 0 else "", str(abs(value * 10**digits).numerator)
    whole = whole.zfill(digits + 1)
    return f"{sign}{whole[:-digits]}.{whole[-digits:]}"
