"""Calls written by a model, wherever they stand in its answer; `expressions` reads each of them."""

import json
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

MAX_TRIES = 64  # places of one text at which a call or a JSON value is sought in vain

_SPECIAL = re.compile("|".join(map(re.escape, AROUND_ANSWERS)))
_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_TAGGED = re.compile(r"<function=([^>\s]+)>\s*(\{.*?\})\s*(?:</function>|\Z)", re.DOTALL)
_START = re.compile(r"(?<![\w.])[^\W\d]\w*(?:\.[^\W\d]\w*)*\(")
_ON = re.compile(r"(?:\.[^\W\d]\w*)*[(\[]")  # .name( or ( or [ right after a call: more is done with what it returned
_LISTED = re.compile(r"\[(?=\s*[^\W\d][\w.]*\()")  # the bracket before ``name(``
STRING = r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\""""
TOKEN = re.compile(rf"{STRING}|[()\[\]{{}}]", re.DOTALL)


def whole(text: str) -> list[Call] | None:
    """The calls that a text is; None when it is anything besides.

    That is one call, or several with commas, semicolons, line breaks or list brackets around them; or the same as JSON
    objects that hold a name, and parameters or arguments. ``[]`` is no call at all.
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
    """The calls in an answer that may say other things as well; None when there are none.

    What stands in code fences counts before what does not, and lines that are nothing but calls before calls in the
    middle of a sentence; what is not understood is passed over. Llama's form for a tool of the user's,
    ``<function=name>{…}</function>``, is understood here and nowhere else: no prompt of these tasks asks for it.
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
    """The lines of a text, cut where no call is cut."""
    lines, begin, at = [], 0, 0
    for start, end in [*((start, end) for start, end, _ in spans(text)), (len(text), len(text))]:
        while (newline := text.find("\n", at, start)) >= 0:
            lines.append(text[begin:newline])
            begin = at = newline + 1
        at = end
    return [*lines, text[begin:]]


def bracketed(text: str) -> list[Call] | None:
    """The calls of the first ``[name(…)]`` of a text that is nothing but calls; None when there is none."""
    text = clean(text)
    return next(filter(None, map(whole, _lists(text))), None)


def _lists(text: str) -> Iterator[str]:
    """Every ``[name(…)]`` of a text, as far as its brackets close."""
    for opening in list(_LISTED.finditer(text))[:MAX_TRIES]:
        if (end := closing(text, opening.start())) is not None:
            yield text[opening.start() : end]


def spans(text: str, *, chained: bool = True) -> Iterator[tuple[int, int, Call | None]]:
    """Every outermost call of a text: where it starts, where it ends, and the call, None where it is not understood.

    Args:
        text: Any text.
        chained: Whether ``f(x).g(y)`` is one span, which is not understood; without, it is ``f(x)`` alone.
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
    """Every call in a value, outer ones before those in their arguments."""
    if isinstance(value, Call):
        yield value
        value = [*value.args, *value.kwargs.values()]
    elif isinstance(value, dict):
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from walk(item)


def closing(text: str, opening: int) -> int | None:
    """The place after the bracket that closes the one at ``opening``; quoted brackets do not count."""
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
    """The parts of an answer that may be nothing but calls: all of it, each code fence, each ``[…]``, each line."""
    text = clean(text)
    yield text
    yield from _FENCE.findall(text)
    yield from _lists(text)
    yield from (line for line in text.splitlines()[:MAX_TRIES] if "(" in line)


def clean(text: str) -> str:
    """A text without the tokens of Llama's template and the blanks around it; nothing of one that is too long."""
    return unmarked(text).strip() if len(text) <= MAX_LENGTH else ""


def unmarked(text: str) -> str:
    """A text without the tokens of Llama's template."""
    return _SPECIAL.sub("", text)


# Calls as JSON


def _json_calls(text: str) -> list[Call] | None:
    calls: list[Call] = []
    at = 0
    try:
        while at < len(text):
            tree, at = _decode(text, at)
            calls += [_json_call(item) for item in (tree if isinstance(tree, list) else [tree])]
            at = re.compile(r"[;,\s]*").match(text, at).end()
    except ParseError:
        return None
    return calls


def json_inside(text: str) -> list[Call] | None:
    """The calls that stand as JSON objects between other text; None when there are none."""
    calls: list[Call] = []
    at, failed = 0, 0
    while failed < MAX_TRIES and (start := text.find("{", at)) >= 0:
        try:
            tree, at = _decode(text, start)
            calls.append(_json_call(tree))
        except ParseError:
            at, failed = start + 1, failed + 1
    return calls or None


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise ParseError(type(error).__name__) from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


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
        arguments, _ = _decode(arguments.strip(), 0)
    if not isinstance(arguments, dict):
        raise ParseError("no arguments")
    # The same limits as for Python: what is not understood there is not understood here.
    return parse(render(Call(tree["name"], (), _shallow(arguments, 0))))


def _shallow(tree: Any, depth: int) -> Any:
    if depth > MAX_DEPTH - 8:
        raise ParseError("too deep")
    if isinstance(tree, dict):
        return {key: _shallow(item, depth + 1) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_shallow(item, depth + 1) for item in tree]
    return scalar(tree)
