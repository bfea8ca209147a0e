"""Convert the text of a Java or JavaScript value by its declared type, as BFCL does.

A text in another form than that of its type stays text: a ``long`` without ``L``, or a ``float`` without ``f``. It is
then right only if the gold is the same text. Commas separate the elements of a list even inside strings.
"""

import re
from collections.abc import Callable
from typing import Any

MAX_LENGTH = 8_000  # characters of a value; a longer value stays text

_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_WHOLE = re.compile(r"-?\d{1,1000}")


def _when(pattern: str, convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: convert(text) if re.fullmatch(pattern, text) else text


_INT = _when(_WHOLE.pattern, int)
_BOOL = _when("true|false", lambda text: text == "true")
_JAVA_PLAIN: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("byte", "short", "integer"), _INT),
    "float": _when(f"{_NUMBER}[fF]", lambda text: float(text[:-1])),
    "double": _when(_NUMBER, float),
    "long": _when(rf"{_WHOLE.pattern}[lL]", lambda text: int(text[:-1])),
    "boolean": _BOOL,
}
_JS_PLAIN: dict[str, Callable[[str], Any]] = {
    "integer": _INT,
    "float": _when(r"-?\d+(?:\.\d+)?", float),
    "Bigint": _when(rf"{_WHOLE.pattern}n", lambda text: int(text[:-1])),
    "Boolean": _BOOL,
}


def _loose(text: str) -> Any:
    """Return the number that Python reads, else the text."""
    for convert in (int, float):
        try:
            return convert(text) if len(text) < 1000 else text
        except ValueError:
            continue
    return text


# Java


def java(text: str, kind: str, nested: str | None = None) -> Any:
    """Return the value of a Java text of a declared type, or the text if it does not have the form of the type.

    Args:
        text: The text in the program. A string has no quotes.
        kind: The declared type, such as ``integer`` or ``ArrayList``.
        nested: The declared type of a list's elements.
    """
    if len(text) > MAX_LENGTH:
        return text
    match kind:
        case "ArrayList":
            return _java_list(text, nested)
        case "Array":
            match = re.search(r"new\s+\w+\[\]\s*\{(.*?)\}", text)
            parts = [part.strip() for part in match[1].split(",")] if match else []
            return [_java_item(part, nested) for part in parts if part] if match else text
        case "HashMap":  # values in its body are dropped before
            return {} if re.search(r"new\s+HashMap<.*?>\s*\(\)", text) else text
    return _JAVA_PLAIN.get(kind, str)(text)


def _java_list(text: str, nested: str | None) -> Any:
    filled = re.search(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)", text)
    if filled is None:
        return [] if re.search(r"new\s+ArrayList<\w*>\(\)", text) else text
    parts = [part.strip() for part in filled[1].split(",")]
    return [part[1:-1] if nested in ("char", "String") else _java_item(part, nested) for part in parts]


def _java_item(text: str, nested: str | None) -> Any:
    if nested:
        return java(text, nested)
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    for kind in ("boolean", "long", "float"):
        if (value := _JAVA_PLAIN[kind](text)) != text:
            return value
    return _loose(text)


# JavaScript


def javascript(text: str, kind: str, nested: str | None = None) -> Any:
    """Return the value of a JavaScript text of a declared type, as `java` does."""
    if len(text) > MAX_LENGTH:
        return text
    match kind:
        case "array":
            return _js_array(text.strip(), nested)
        case "dict":
            return _js_object(text.strip())
        case "String":
            return _unquoted(text)
    return _JS_PLAIN.get(kind, str)(text)


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] == text[-1:] and text[:1] in ("'", '"') and len(text) > 1 else text


def _js_array(text: str, nested: str | None) -> Any:
    inside = _two_dimensional(text)
    if inside is not None:
        return [[_js_item(part) for part in row.split(",")] for row in re.findall(r"\[(.*?)\]", inside)]
    match = re.match(r"\[(.*?)\]|new\s+Array\((.*?)\)", text)
    if match is None:
        return text
    listed = (match[1] if match[1] is not None else match[2]).strip()
    parts = [part.strip() for part in listed.split(",")] if listed else []
    return [javascript(part, nested) if nested else _js_item(part) for part in parts]


def _two_dimensional(text: str) -> str | None:
    """Return the text inside an array of arrays, or None if the text is not one."""
    opening = re.match(r"(?:\[|new\s+Array\()\s*(?=\[)", text)
    if opening is None:
        return None
    at = opening.end()
    while (close := text.find("]", at)) >= 0:
        rest = re.compile(r"\s*(,\s*\[|[\])])").match(text, close + 1)
        if rest is None or rest[1] in "])":
            wanted = "]" if opening[0].startswith("[") else ")"
            return text[opening.end() : close + 1] if rest and rest[1] == wanted else None
        at = rest.end()
    return None


def _js_object(text: str) -> Any:
    match = re.match(r"\{(.*?)\}", text)
    if match is None:
        return text
    pairs = re.findall(r"([^:]+):\s*(.*?)(?:,\s*(?=[^,]+:)|$)", match[1])
    return {key.strip().strip("'\""): _js_member(value.strip()) for key, value in pairs}


def _js_member(text: str) -> Any:
    if text[:1] == "[" and text[-1:] == "]":
        return _js_array(text, None)
    if text[:1] == "{" and text[-1:] == "}":
        return _js_object(text)
    return _js_item(text.strip("'\""))


def _js_item(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    return _unquoted(text) if _unquoted(text) != text else _loose(text)
