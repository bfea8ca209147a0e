"""Find calls in the answer of a model. `expressions` parses each of them."""

import re
from collections.abc import Iterator
from typing import Any

from .._common.families import AROUND_ANSWERS
from .expressions import (
    MAX_DEPTH,
    MAX_INT_BITS,
    MAX_LENGTH,
    Call,
    Name,
    ParseError,
    is_name,
    parse,
    parse_json,
    parse_value,
    read_node,
    read_object,
    render,
    render_calls,
    scalar,
    syntax_tree,
)

__all__ = [
    "MAX_DEPTH", "MAX_INT_BITS", "MAX_LENGTH", "MAX_TRIES", "TOKEN", "Call", "Name", "ParseError", "anywhere",
    "bracketed", "clean", "closing", "is_name", "json_inside", "parse", "parse_value", "pieces", "read_node",
    "read_object", "render", "render_calls", "spans", "syntax_tree", "unmarked", "walk", "whole",
]  # fmt: skip

MAX_TRIES = 64  # failed attempts in a text to read a call or a JSON value

_SPECIAL = re.compile("|".join(map(re.escape, AROUND_ANSWERS)))
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_TAGGED = re.compile(r"<function=([^>\s]+)>\s*(\{.*?\})\s*(?:</function>|\Z)", re.DOTALL)
_START = re.compile(r"(?<![\w.])[^\W\d]\w*(?:\.[^\W\d]\w*)*\(")
_ON = re.compile(r"(?:\.[^\W\d]\w*)*[(\[]")  # .name( or ( or [ right after a call, which use its result
_LISTED = re.compile(r"\[(?=\s*[^\W\d][\w.]*\()")  # the bracket before ``name(``
STRING = r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\""""
TOKEN = re.compile(rf"{STRING}|[()\[\]{{}}]", re.DOTALL)


def whole(text: str) -> list[Call] | None:
    """Return the calls of a text that has nothing else, or None.

    The text has a call, or several separated by commas, semicolons, line breaks or list brackets. It may also have JSON
    objects with a name, and with parameters or arguments. ``[]`` gives an empty list.
    """
    text = clean(text)
    if text == "[]":
        return []
    if re.match(r"\[?\s*\{", text):
        return _json_calls(text)
    calls, at, rest = [], 0, []
    for start, end, call in spans(text):
        if call is None:
            return None
        calls.append(call)
        rest.append(text[at:start])
        at = end
    rest.append(text[at:])
    return calls if calls and not re.sub(r"[\[\],;\s]", "", "".join(rest)) else None


def anywhere(text: str) -> list[Call] | None:
    """Return the calls in an answer that may have other text, or None.

    Code fences are searched before the whole text. Lines that only have calls come before calls inside a sentence. Text
    that is not understood is skipped. Llama's format for custom tools, ``<function=name>{…}</function>``, is read only
    here, because no prompt of these tasks asks for it.
    """
    text = clean(text)
    tagged = [_tagged(*parts) for parts in _TAGGED.findall(text)[:MAX_TRIES]]
    if tagged and all(tagged):
        return tagged
    for source in ("\n".join(_FENCE.findall(text)), text):
        on_own_lines = [call for line in _lines(source) for call in whole(line) or []]
        for calls in (whole(source), on_own_lines, json_inside(source), [call for *_, call in spans(source) if call]):
            if calls:
                return calls
    return None


def _lines(text: str) -> list[str]:
    """Split a text into lines, but not inside a call."""
    lines, begin, at = [], 0, 0
    for start, end in [*((start, end) for start, end, _ in spans(text)), (len(text), len(text))]:
        while (newline := text.find("\n", at, start)) >= 0:
            lines.append(text[begin:newline])
            begin = at = newline + 1
        at = end
    return [*lines, text[begin:]]


def bracketed(text: str) -> list[Call] | None:
    """Return the calls of the first ``[name(…)]`` that only has calls, or None."""
    text = clean(text)
    return next(filter(None, map(whole, _lists(text))), None)


def _lists(text: str) -> Iterator[str]:
    """Yield every ``[name(…)]`` of a text with closed brackets."""
    for opening in list(_LISTED.finditer(text))[:MAX_TRIES]:
        if (end := closing(text, opening.start())) is not None:
            yield text[opening.start() : end]


def spans(text: str, *, chained: bool = True) -> Iterator[tuple[int, int, Call | None]]:
    """Yield every outermost call of a text: its start, its end, and the call, or None if it is not understood.

    Args:
        text: Any text.
        chained: Whether ``f(x).g(y)`` is a single span, which is not understood. Else the span is only ``f(x)``.
    """
    at, failed = 0, 0
    while failed < MAX_TRIES and len(text) <= MAX_LENGTH and (match := _START.search(text, at)):
        end = closing(text, match.end() - 1)
        if end is None or text.endswith("def ", 0, match.start()):
            at, failed = match.end(), failed + 1
            continue
        while chained and end is not None and (more := _ON.match(text, end)):
            end = closing(text, more.end() - 1)
        at = match.end() if end is None else end
        try:
            call = parse(text[match.start() : at])
        except ParseError:
            call, failed = None, failed + 1
        yield match.start(), at, call


def walk(value: Any) -> Iterator[Call]:
    """Yield every call in a value. Outer calls come before those in their arguments."""
    if isinstance(value, Call):
        yield value
        value = [*value.args, *value.kwargs.values()]
    elif isinstance(value, dict):
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from walk(item)


def closing(text: str, opening: int) -> int | None:
    """Return the index after the bracket that closes that at ``opening``, or None. Quoted brackets are ignored."""
    depth = 0
    for token in TOKEN.finditer(text, opening):
        if token[0] in "([{":
            depth += 1
        elif token[0] in ")]}":
            depth -= 1
        if depth == 0:
            return token.end()
        if depth > MAX_DEPTH:
            return None
    return None


def pieces(text: str) -> Iterator[str]:
    """Yield parts of an answer that may only have calls: all of it, each code fence, each ``[…]``, each line."""
    text = clean(text)
    yield text
    yield from _FENCE.findall(text)
    yield from _lists(text)
    yield from (line for line in text.splitlines()[:MAX_TRIES] if "(" in line)


def clean(text: str) -> str:
    """Remove the tokens of Llama's template and white space at the ends. A text that is too long becomes empty."""
    return unmarked(text).strip() if len(text) <= MAX_LENGTH else ""


def unmarked(text: str) -> str:
    """Remove the tokens of Llama's template from a text."""
    return _SPECIAL.sub("", text)


# Calls as JSON


def _json_calls(text: str) -> list[Call] | None:
    calls: list[Call] = []
    at = 0
    try:
        while at < len(text):
            tree, at = parse_json(text, at)
            calls += [_json_call(item) for item in (tree if isinstance(tree, list) else [tree])]
            at = re.compile(r"[;,\s]*").match(text, at).end()
    except ParseError:
        return None
    return calls


def json_inside(text: str) -> list[Call] | None:
    """Return the calls that are JSON objects among other text, or None."""
    calls: list[Call] = []
    at, failed = 0, 0
    while failed < MAX_TRIES and (start := text.find("{", at)) >= 0:
        try:
            tree, at = parse_json(text, start)
            calls.append(_json_call(tree))
        except ParseError:
            at, failed = start + 1, failed + 1
    return calls or None


def _tagged(name: str, arguments: str) -> Call | None:
    try:
        return _json_call({"name": name, "arguments": arguments})
    except ParseError:
        return None


def _json_call(tree: Any) -> Call:
    if isinstance(tree, dict) and isinstance(tree.get("function"), dict):
        tree = tree["function"]
    if not isinstance(tree, dict) or not isinstance(tree.get("name"), str) or not is_name(tree["name"]):
        raise ParseError("no JSON call")
    arguments = tree.get("parameters", tree.get("arguments"))
    if isinstance(arguments, str):
        arguments, _ = parse_json(arguments.strip(), 0)
    if not isinstance(arguments, dict):
        raise ParseError("no arguments")
    # Parse the call as Python, so the same limits apply.
    return parse(render(Call(tree["name"], (), _shallow(arguments, 0))))


def _shallow(tree: Any, depth: int) -> Any:
    if depth > MAX_DEPTH - 8:
        raise ParseError("too deep")
    if isinstance(tree, dict):
        return {key: _shallow(item, depth + 1) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_shallow(item, depth + 1) for item in tree]
    return scalar(tree)
