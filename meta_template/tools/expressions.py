"""Parse expressions that a model wrote, without evaluation.

``ast.parse`` or ``json.loads`` reads the text. These are understood: literals, names and attributes, calls, lists,
tuples, dicts, a minus before a number, and ``**{…}`` with literal keys.

All else is a `ParseError`: operators, comprehensions, lambdas, subscripts, f-strings, and calls of a call's result. So
is a text that is too long or too deep. No text raises any other exception here.
"""

import ast
import json
import keyword
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_LENGTH = 20_000  # characters of a text; several times the token limits of these tasks
MAX_DEPTH = 64  # of nested brackets
MAX_LEVELS = 150  # of a syntax tree, such as attributes of attributes. Python 3.11 has room for twice as many
MAX_INT_BITS = 4096  # Python refuses to print an int with more than 4,300 digits


class ParseError(ValueError):
    """The text is not understood by this module."""


@dataclass(frozen=True)
class Name:
    """A variable or an attribute in place of a value: ``city``, ``Unit.METRIC``."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call. The order of keyword arguments does not matter. Values compare as in Python: ``1 == 1.0 == True``."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


# A single expression


def parse(text: str) -> Call:
    """Parse a text as a call.

    Raises:
        ParseError: It is anything else.
    """
    call = parse_value(text)
    if not isinstance(call, Call):
        raise ParseError("no call")
    return call


def parse_value(text: str) -> Any:
    """Parse a text as a value: str, int, float, bool, None, list, tuple, dict, `Name` or `Call`.

    Raises:
        ParseError: It is anything else.
    """
    return read_node(syntax_tree(text.strip(), "eval").body)


def syntax_tree(text: str, mode: str) -> Any:
    """Call ``ast.parse`` with any text.

    Raises:
        ParseError: The text is too long or too deep, or is not Python.
    """
    if len(text) > MAX_LENGTH:
        raise ParseError("too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in a model's text
            tree = ast.parse(text, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParseError(type(error).__name__) from None
    if is_deeper([tree], ast.iter_child_nodes, MAX_LEVELS):
        raise ParseError("too deep")
    return tree


def is_deeper(level: list[Any], parts: Callable[[Any], Iterable[Any]], most: int) -> bool:
    """Return whether a tree has more levels than ``most``. It must not depend on the stack of this Python."""
    for _ in range(most):
        level = [part for node in level for part in parts(node)]
        if not level:
            return False
    return True


def parse_json(text: str, at: int = 0) -> tuple[Any, int]:
    """Return the JSON value of a text from a place on, and the place after it.

    Raises:
        ParseError: It is not JSON, or deeper than `MAX_DEPTH`.
    """
    try:
        tree, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise ParseError(type(error).__name__) from None
    if is_deeper([tree], _parts, MAX_DEPTH):
        raise ParseError("too deep")
    return tree, end


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def read_node(node: ast.AST, depth: int = 0) -> Any:
    """Return the value of a syntax tree, as `parse_value` does for a text."""
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
    """Return a literal unchanged.

    Raises:
        ParseError: It is of another type, or an int with more than `MAX_INT_BITS`.
    """
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
    """Read a text as JSON or as a Python value. Return None if it is neither."""
    try:
        tree = json.loads(text)
        return None if is_deeper([tree], _parts, MAX_DEPTH) else tree
    except (ValueError, RecursionError):
        pass
    try:
        return parse_value(text)
    except ParseError:
        return None


# Back to text


def render(value: Any) -> str:
    """Write a value as an expression, from which `parse_value` reads the same value."""
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
    """Write a single call as an expression, and several or none as a list. `calls.whole` reads the same calls."""
    return render(calls[0] if len(calls) == 1 else calls)


def is_name(text: str) -> bool:
    """Return whether a text can be the name in a call, unchanged by Python's normalisation of identifiers."""
    return unicodedata.normalize("NFKC", text) == text and all(
        part.isidentifier() and not keyword.iskeyword(part) for part in text.split(".")
    )
