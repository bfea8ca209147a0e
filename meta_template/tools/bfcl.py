"""BFCL v2: decode and check answers as the Berkeley Function Calling Leaderboard does (its commit 70d6722).

`decode` reads the calls of an answer in the language of the functions. `grade` pairs each gold with a different call,
in any order. It compares every argument with the declared type and the gold's possible values. An int may replace a
float, but a bool replaces nothing. Strings are compared without case, spaces and ``,./-_*^``.

The prompt declares the types (`declared`). If they cannot be read, the types of the gold's values are used. Positional
arguments of Python are ignored, as on the leaderboard. No code is evaluated. The leaderboard gives arithmetic on
numbers to Python, and this module computes it within limits.
"""

import ast
import re
from collections.abc import Callable
from typing import Any

from . import bfcl_values as values
from . import calls
from .bfcl_source import SourceError, read_call
from .calls import ParseError

Decoded = list[dict[str, dict[Any, Any]]]  # for each call its function with the arguments
Possible = list[tuple[str, dict[str, list[Any]]]]  # for each call its function and the possible values of each argument


# What the prompt declares

_KINDS: dict[str, dict[str, type]] = {
    "Python": {
        "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
        "any": str,
    },
    "Java": {
        "byte": int, "short": int, "integer": int, "float": float, "double": float, "long": int, "boolean": bool,
        "char": str, "Array": list, "ArrayList": list, "HashMap": dict, "Queue": list, "Stack": list, "String": str,
        "any": str,
    },
    "JavaScript": {
        "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
        "any": str,
    },
}  # fmt: skip
_NESTED = {"Python": ("array", "tuple"), "Java": ("Array", "ArrayList"), "JavaScript": ("array",)}
_STANDS_FOR = {
    "Python": {bool: "boolean", int: "integer", float: "float", list: "array", dict: "dict", str: "string"},
    "Java": {bool: "boolean", int: "integer", float: "double", list: "ArrayList", dict: "HashMap", str: "String"},
    "JavaScript": {bool: "Boolean", int: "integer", float: "float", list: "array", dict: "dict", str: "String"},
}
_CONVERT = {"Java": values.java, "JavaScript": values.javascript}


def declared(prompt: str, subtask: str) -> dict[str, Any]:
    """Return the language and the functions that a prompt declares.

    Each function has its required arguments, and for each argument its declared type and that of its elements. For Java
    and JavaScript the prompt declares every argument as a string and gives the type in the description.
    """
    functions: dict[str, Any] = {}
    described = ""
    at = 0
    for opening in re.finditer(r"\{\s*[\"']name[\"']\s*:", prompt):
        end = calls.closing(prompt, opening.start()) if opening.start() >= at else None
        entry = calls.read_object(prompt[opening.start() : end]) if end is not None else None
        parameters = entry.get("parameters") if isinstance(entry, dict) else None
        if isinstance(parameters, dict) and isinstance(entry["name"], str):
            at = end
            described += str(entry.get("description"))
            properties = parameters.get("properties") if isinstance(parameters.get("properties"), dict) else {}
            functions[entry["name"]] = {
                "required": [name for name in parameters.get("required") or [] if isinstance(name, str)],
                "types": {name: _declared_type(of) for name, of in properties.items() if isinstance(of, dict)},
            }
    named = re.search(r"is in (JavaScript|Java|Python)\b", described) or re.search("javascript|java", subtask)
    languages = {"javascript": "JavaScript", "java": "Java"}
    return {
        "language": languages.get(named[0], named[named.lastindex or 0]) if named else "Python",
        "functions": functions,
    }


def _declared_type(parameter: dict[str, Any]) -> tuple[str, str]:
    description = str(parameter.get("description"))
    items = parameter.get("items")
    kind, nested = parameter.get("type"), items.get("type") if isinstance(items, dict) else None
    if described := re.search(r"This is (?:JavaScript|Java) (\w+) type parameter in string", description):
        kind = described[1]
        listed = re.search(r"The list elements are of type (\w+)", description)
        nested = listed[1] if listed else None
    elif re.search(r"can be of any type of (?:JavaScript|Java) object", description):
        kind = "any"
    return str(kind), str(nested or "")


# Reading an answer


def decode(answer: str, language: str) -> Decoded | None:
    """Return the calls of an answer, or None if the leaderboard cannot read it.

    The answer is first read without line breaks, as the leaderboard read Llama's answers. If this fails, blanks, line
    breaks and backticks are removed at the ends only, as the leaderboard has done since for all prompted answers.
    """
    if len(answer) > calls.MAX_LENGTH:
        return None
    for bare in (answer.replace("\n", ""), answer.strip("`\n ")):
        text = "[" * (not bare.startswith("[")) + bare
        text += "]" * (not text.endswith("]"))
        try:
            return _python(text) if language == "Python" else [_other(text[1:-1], language)]
        except (ParseError, SourceError):
            continue
    return None


def _other(program: str, language: str) -> dict[str, dict[Any, Any]]:
    call = read_call(program, language)
    return {call.function: {**call.arguments, **({None: ""} if call.loose else {})}}


def _python(text: str) -> Decoded:
    body = calls.syntax_tree(text.strip("[]'"), "eval").body
    nodes = [body] if isinstance(body, ast.Call) else getattr(body, "elts", None)
    if nodes is None or not all(isinstance(node, ast.Call) for node in nodes):
        raise ParseError("no calls")
    return [_call(node, 0) for node in nodes]


def _call(node: ast.Call, depth: int) -> dict[str, dict[Any, Any]]:
    parts, function = [], node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    return {".".join(reversed(parts)): {keyword.arg: _value(keyword.value, depth) for keyword in node.keywords}}


def _value(node: ast.AST | None, depth: int) -> Any:
    if depth > calls.MAX_DEPTH:
        raise ParseError("too deep")
    depth += 1
    match node:
        case ast.Constant(value=value):
            decoded = "..." if value is Ellipsis else _bounded(value)
        case ast.UnaryOp(operand=ast.Constant(value=bool() | int() | float() as value)):
            decoded = -_bounded(value)  # for any unary operator, as on the leaderboard
        case ast.BinOp():
            decoded = _arithmetic(node, depth)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            decoded = (tuple if isinstance(node, ast.Tuple) else list)(_value(item, depth) for item in items)
        case ast.Dict(keys=keys, values=inner):
            decoded = {_key(key, depth): _value(item, depth) for key, item in zip(keys, inner, strict=True)}
        case ast.Name(id=name):
            decoded = name
        case ast.Call(keywords=[]) | ast.Subscript():
            decoded = ast.unparse(node)
        case ast.Call():
            decoded = _call(node, depth)
        case _:
            raise ParseError(type(node).__name__)
    return decoded


def _key(node: ast.AST | None, depth: int) -> Any:
    key = _value(node, depth)
    try:
        hash(key)
    except TypeError:
        raise ParseError("a key that is no key") from None
    return key


def _bounded(value: Any) -> Any:
    if isinstance(value, complex) or (isinstance(value, int) and value.bit_length() > calls.MAX_INT_BITS):
        raise ParseError("no number, or a huge one")
    return value


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
}


def _arithmetic(node: ast.AST, depth: int) -> Any:
    """Compute an expression of numbers within limits. Two strings may be joined by ``+``."""
    if depth > calls.MAX_DEPTH:
        raise ParseError("too deep")
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            left, right, op = 0, _arithmetic(operand, depth + 1), ast.Sub
        case ast.BinOp(op=kind, left=first, right=second) if type(kind) in _OPERATIONS:
            left, right, op = _arithmetic(first, depth + 1), _arithmetic(second, depth + 1), type(kind)
        case _:
            raise ParseError("no arithmetic")
    texts = isinstance(left, str) + isinstance(right, str)
    if texts and not (texts == 2 and op is ast.Add):
        raise ParseError("no arithmetic")
    if op is ast.Pow and (abs(right) > 256 or abs(left) > 2**64):
        raise ParseError("a huge number")
    try:
        return _bounded(_OPERATIONS[op](left, right))
    except (ArithmeticError, ValueError):
        raise ParseError("no number") from None


# Golds


def read_possible(text: str) -> Possible | None:
    """Return the calls of a gold with the possible values of each argument, or None if the text is not a gold.

    A gold has one of these forms:

    - BFCL's format ``{"name": {"argument": [value, …]}}``, or a list of these, as JSON or Python. An empty string among
      the values means that the argument may be omitted.
    - Calls, whose values are then the only possible ones.
    - ``[]``, which requests no call.
    """
    tree = calls.read_object(text)
    entries = [
        pair for item in (tree if isinstance(tree, list) else [tree]) if isinstance(item, dict) for pair in item.items()
    ]
    if entries and all(
        isinstance(name, str) and isinstance(given, dict) and all(isinstance(value, list) for value in given.values())
        for name, given in entries
    ):
        return entries
    if text.strip() == "[]":
        return []
    listed = tree if isinstance(tree, list) and all(isinstance(item, str) for item in tree) else [text]
    alternatives = [decode(item, "Python") for item in listed]
    if not alternatives or not all(alternatives):
        return None
    return [
        (name, {key: [_only(value)] for key, value in given.items()})
        for decoded in alternatives
        for call in decoded
        for name, given in call.items()
    ]


def _only(value: Any) -> Any:
    """Return a call's value in BFCL's format: a dict lists possible values for each key, and tuples become lists."""
    if isinstance(value, dict):
        return {key: [_plain(item)] for key, item in value.items()}
    return [_only(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# Checking


def grade(answer: Decoded, gold: Possible, declares: dict[str, Any]) -> bool:
    """Return whether each call of the gold has its own matching call, in any order, and no call is left.

    Each call of the gold, in order, takes the first remaining call that fits.
    """
    left = list(answer)
    if len(left) != len(gold):
        return False
    if len(gold) == len(declares["functions"]) == 1:  # the declared name replaces the gold's
        gold = [(next(iter(declares["functions"])), gold[0][1])]
    for name, possible in gold:
        fitting = next((index for index, call in enumerate(left) if _fits(call, name, possible, declares)), None)
        if fitting is None:
            return False
        del left[fitting]
    return True


def _fits(call: dict[str, dict[Any, Any]], name: str, possible: dict[str, list[Any]], declares: dict[str, Any]) -> bool:
    if name not in call:
        return False
    given, language = call[name], declares["language"]
    function = declares["functions"].get(name) or {"required": [], "types": {}}
    if not all(argument in given for argument in function["required"]):
        return False
    if not all(argument in given or "" in listed for argument, listed in possible.items()):
        return False
    return all(
        argument in possible
        and (argument in function["types"] or not function["types"])
        and _right(value, possible[argument], function["types"].get(argument), language)
        for argument, value in given.items()
    )


def _right(value: Any, possible: list[Any], declared_type: tuple[str, str] | None, language: str) -> bool:
    """Return whether an argument's value has its type and is a possible value.

    If the gold's values have another type than the declared one, they are taken as variables, which must be the same.
    """
    sure = [item for item in possible if item != ""]
    kinds = _KINDS[language]
    kind, nested = declared_type or ("", "")
    if kind not in kinds:
        kind = _STANDS_FOR[language].get(type(sure[0]) if sure else str, "any")
        inner = [item for listed in sure if isinstance(listed, list) for item in listed]
        nested = _STANDS_FOR[language].get(type(inner[0]), "") if len({type(item) for item in inner}) == 1 else ""
    if language != "Python":
        if not isinstance(value, str):
            return False
        value = _CONVERT[language](value, kind, nested or None)
    expected = kinds[kind]
    nested_type = kinds.get(nested) if kind in _NESTED[language] else None
    if kind == "tuple" and isinstance(value, tuple):
        value = list(value)
    if language == "Python" and kind == "float" and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    if sure and type(sure[0]) is not expected and type(value) in (type(sure[0]), expected):
        return value in possible and _nested_right(value, possible, nested_type if type(value) is expected else None)
    if type(value) is not expected or not _nested_right(value, possible, nested_type):
        return False
    return _same(value, possible, nested_type)


def _same(value: Any, possible: list[Any], nested_type: type | None) -> bool:
    """Return whether a value of the declared type is a possible value."""
    expected = type(value)
    if expected is dict:
        return any(_dict_right(value, item) for item in possible)
    if expected is list and nested_type is dict:
        return any(
            len(value) == len(listed) and all(map(_dict_right, value, listed))
            for listed in possible
            if listed != "" or not value
        )
    if expected is str:
        return _forgiving(value) in [_forgiving(item) for item in possible if isinstance(item, str)]
    if expected is list:
        return [_forgiven(item) for item in value] in [
            [_forgiven(item) for item in listed] for listed in map(_iterable, possible)
        ]
    return value in possible


def _iterable(value: Any) -> Any:
    return value if isinstance(value, list | str) else []


def _nested_right(value: Any, possible: list[Any], nested_type: type | None) -> bool:
    """Return whether the elements of a list have the declared type, or the type of a gold's first element."""
    if nested_type is None:
        return True
    return any(
        not isinstance(listed, list) or all(_element_right(item, listed, nested_type) for item in value)
        for listed in possible
    )


def _element_right(item: Any, listed: list[Any], nested_type: type) -> bool:
    first = next((other for other in listed if other != ""), None)
    return type(item) is nested_type or (first is not None and type(item) is type(first))


def _dict_right(value: Any, possible: Any) -> bool:
    """Return whether every key of a dict has a possible value, and no required key is missing."""
    if not isinstance(value, dict) or not isinstance(possible, dict):
        return False
    return all(
        key in possible
        and isinstance(possible[key], list)
        and _forgiven(item) in [_forgiven(value) for value in possible[key]]
        for key, item in value.items()
    ) and all(key in value or "" in listed for key, listed in possible.items())


def _forgiven(value: Any) -> Any:
    return _forgiving(value) if isinstance(value, str) else value


def _forgiving(text: str) -> str:
    return re.sub(r"[ ,./\-_*^]", "", text).lower().replace("'", '"')
