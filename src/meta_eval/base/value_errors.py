"""Says in plain words what pydantic says of a wrong value."""

from __future__ import annotations

import re

from meta_eval.base.errors import suggest_name

# What follows "Input should be ", and what a value must be.
_PLAIN = (
    (r"a valid integer.*", "a whole number"),
    (r"a valid number.*", "a number"),
    (r"a valid boolean.*", "true or false"),
    (r"a valid string.*", "a text"),
    (r"a valid (list|tuple).*", "a list"),
    (r"a valid dictionary.*", "a mapping of keys to values"),
    (r"greater than or equal to (.+)", r"\1 or more"),
    (r"less than or equal to (.+)", r"\1 or less"),
    (r"greater than (.+)", r"more than \1"),
)


def describe_wrong_value(message: str, value: object = "") -> str:
    """What a value must be: ``it must be a whole number``. Messages of our own checks stay as they are.

    Args:
        message: The message of pydantic's error.
        value: The value, for the nearest of the allowed names.
    """
    words = message.removeprefix("Value error, ").rstrip(".")
    if not words.startswith("Input should be "):
        return words
    bound = words.removeprefix("Input should be ")
    names = re.findall("'([^']*)'", bound)
    for pattern, plain in _PLAIN:
        bound = re.sub(f"^{pattern}$", plain, bound)
    return f"it must be {bound}{suggest_name(str(value), names)}"
