"""Expressions written by a model, read as syntax trees and never evaluated.

``ast.parse`` or ``json.loads`` reads the text. Understood are literals, names and attributes, calls, lists, tuples,
dicts, a minus before a number, and ``**{…}`` with literal keys. Anything else (operators, comprehensions, lambdas,
subscripts, f-strings, calls of what a call returned) is a `ParseError`, and so is text that is too long or too deep.
Nothing here raises anything else, whatever the text.
"""

import ast
import json
import keyword
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_LENGTH = 20_000  # characters of a text; several times what the token limits of these tasks allow
MAX_DEPTH = 64  # of brackets inside one another
MAX_INT_BITS = 4096  # beyond some 4,300 digits Python refuses to write an int down


class ParseError(ValueError):
    """The text is not what this module understands."""


@dataclass(frozen=True)
class Name:
    """A variable or an attribute where a value was expected: ``city``, ``Unit.METRIC``."""

    text: str


@dataclass(frozen=True)
class Call:
    """One call. Keyword arguments are equal in any order; values are equal as Python's are, so ``1 == 1.0 == True``."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


# One expression


def parse(text: str) -> Call:
    """The call that a text is.

    Raises:
        ParseError: It is anything else.
    """
    call = parse_value(text)
    if not isinstance(call, Call):
        raise ParseError("no call")
    return call


def parse_value(text: str) -> Any:
    """The value that an expression is: str, int, float, bool, None, list, tuple, dict, `Name` or `Call`.

    Raises:
        ParseError: It is anything else.
    """
    return read_node(syntax_tree(text.strip(), "eval").body)


def syntax_tree(text: str, mode: str) -> Any:
    """``ast.parse``, for text of any kind.

    Raises:
        ParseError: It is too long or too deep, or no Python.
    """
    if len(text) > MAX_LENGTH:
        raise ParseError("too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in what a model wrote
            return ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParseError(type(error).__name__) from None


def read_node(node: ast.AST, depth: int = 0) -> Any:
    """The value that a syntax tree of an expression stands for, as `parse_value`."""
    if depth > MAX_DEPTH:
        raise ParseError("too deep")
    depth += 1
    match node:
        case ast.Constant(value=value):
            result = scalar(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if type(value) in (int, float):
            result = -scalar(value)
        case ast.Name() | ast.Attribute():
            result = Name(_dotted(node))
        case ast.List(elts=items):
            result = [read_node(item, depth) for item in items]
        case ast.Tuple(elts=items):
            result = tuple(read_node(item, depth) for item in items)
        case ast.Dict(keys=keys, values=values):
            result = {_key(key): read_node(item, depth) for key, item in zip(keys, values, strict=True)}
        case ast.Call(func=function, args=args, keywords=keywords):
            name = _dotted(function)
            result = Call(name, tuple(read_node(arg, depth) for arg in args), _keywords(keywords, depth))
        case _:
            raise ParseError(type(node).__name__)
    return result


def scalar(value: object) -> Any:
    """A literal as it is; a `ParseError` for one of another kind, or too large a number."""
    if value is None or type(value) in (str, float, bool):
        return value
    if type(value) is int and value.bit_length() <= MAX_INT_BITS:
        return value
    raise ParseError("a literal of another kind")


def _key(node: ast.AST | None) -> Any:
    key = read_node(node) if isinstance(node, ast.Constant | ast.UnaryOp) else None
    if key is None:
        raise ParseError("a key that is no literal")
    return key


def _dotted(node: ast.AST) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise ParseError("an attribute of something that is no name")
    return ".".join([node.id, *reversed(parts)])


def _keywords(nodes: list[ast.keyword], depth: int) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for node in nodes:
        value = read_node(node.value, depth)
        pairs = {node.arg: value} if node.arg is not None else value
        if not isinstance(pairs, dict) or any(not isinstance(key, str) or key in keywords for key in pairs):
            raise ParseError("a keyword given twice, or not as text")
        keywords.update(pairs)
    return keywords


def read_object(text: str) -> Any:
    """Lists, dicts and literals as JSON or as Python writes them; None where a text is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return parse_value(text)
    except ParseError:
        return None


# Back to text


def render(value: Any) -> str:
    """A value as an expression that `parse_value` reads as the same value."""
    match value:
        case Name():
            text = value.text
        case Call(name=name, args=args, kwargs=kwargs):
            text = f"{name}({', '.join([*map(render, args), *(_keyword(*pair) for pair in kwargs.items())])})"
        case list():
            text = f"[{', '.join(map(render, value))}]"
        case tuple():
            text = f"({', '.join(map(render, value))}{',' * (len(value) == 1)})"
        case dict():
            text = f"{{{', '.join(f'{render(key)}: {render(item)}' for key, item in value.items())}}}"
        case float() if value in (float("inf"), float("-inf")):
            text = "1e999" if value > 0 else "-1e999"
        case _:
            text = repr(value)
    return text


def _keyword(name: str, value: Any) -> str:
    plain = is_name(name) and "." not in name
    return f"{name}={render(value)}" if plain else f"**{render({name: value})}"


def render_calls(calls: list[Call]) -> str:
    """One call as itself, several or none as a list; `whole` reads it as the same calls."""
    return render(calls[0] if len(calls) == 1 else calls)


def is_name(text: str) -> bool:
    """Whether a text can stand before the brackets of a call, and means the same there."""
    return unicodedata.normalize("NFKC", text) == text and all(
        part.isidentifier() and not keyword.iskeyword(part) for part in text.split(".")
    )
