"""Nexus: test whether an answer makes the gold's calls in the same order, as the notebook of NexusRaven-V2 does.

The notebook runs the answer with dummies in place of the documented functions. A dummy returns None. It records its
name and its arguments with their defaults, but only those with a true value, so not 0 or "". The records of answer and
gold must be equal and not empty. Calls after an error are not recorded.

An answer must start with ``name(…)`` on a single line. Else it is not run and is wrong, such as ``[f()]``. So is an
answer that is not Python.

This module runs nothing. `records` walks the syntax tree and binds arguments to the signatures in the prompt. It
understands calls, literals, containers and assignments. Anything else ends a program, as an error would.
"""

import ast
import inspect
import re
from typing import Any

from . import calls
from .calls import ParseError

# Only NVDLibrary's dummies also record arguments with a false value. They are documented without other functions. If a
# prompt documents others too, the notebook does not record calls of searchCPE.
_RECORDS_ALL = frozenset(("searchCVE", "searchCPE"))
_FORGOTTEN = "searchCPE"

Record = tuple[str, dict[str, Any]]


class _StopError(Exception):
    """The program would end with an error here."""


def program(answer: str) -> str | None:
    """Return the answer if the notebook would run it, else None."""
    answer = answer.strip()
    if len(answer) > calls.MAX_LENGTH or not re.match(r"\w+\(.*\)", answer):
        return None
    return answer if _parsed(answer) else None


def gold_program(gold: str) -> str | None:
    """Return the program of a gold, or None. A gold has calls, a list of such texts, or ``r = nvdlib.name(…)``."""
    tree = calls.read_object(gold)
    if isinstance(tree, list) and tree and all(isinstance(item, str) for item in tree):
        gold = "; ".join(tree)
    gold = gold.replace("r = nvdlib.", "").strip()
    return (
        gold if gold and any(isinstance(node, ast.Call) for node in ast.walk(_parsed(gold) or ast.Module([]))) else None
    )


def _parsed(text: str) -> ast.Module | None:
    try:
        tree: ast.Module = calls.syntax_tree(text, "exec")
    except ParseError:
        return None
    for node in ast.walk(tree):
        names = [keyword.arg for keyword in node.keywords if keyword.arg] if isinstance(node, ast.Call) else []
        if len(set(names)) < len(names):  # the parser accepts it, but the compiler does not
            return None
    return tree


def headers(prompt: str, golds: list[str]) -> list[str]:
    """Return ``def name(…)`` of every documented function that can be parsed.

    A function is omitted if a gold's call does not fit its signature, because the gold was written for another.
    """
    by_name: dict[str, str] = {}
    for opening in re.finditer(r"\bdef\s+(\w+)\s*\(", prompt):
        end = calls.closing(prompt, opening.end() - 1)
        header = prompt[opening.start() : end] if end is not None else ""
        try:
            signature(header)
        except ParseError:
            continue
        by_name.setdefault(opening[1], header)
    for node in (
        node for gold in golds for node in ast.walk(_parsed(gold) or ast.Module([])) if isinstance(node, ast.Call)
    ):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in by_name and not _fits(node, signature(by_name[name])[1]):
            del by_name[name]
    return list(by_name.values())


def _fits(node: ast.Call, bound: inspect.Signature) -> bool:
    try:
        bound.bind(*node.args, **{keyword.arg: None for keyword in node.keywords if keyword.arg})
    except TypeError:
        return False
    return True


def signature(header: str) -> tuple[str, inspect.Signature]:
    """Parse the header of a function into its name and signature.

    Raises:
        ParseError: It is not the header of a function.
    """
    try:
        (function,) = calls.syntax_tree(f"{header}: pass", "exec").body
        args = function.args
        positional = [*args.posonlyargs, *args.args]
        defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
        parameters = [
            _parameter(node, "POSITIONAL_ONLY" if node in args.posonlyargs else "POSITIONAL_OR_KEYWORD", default)
            for node, default in zip(positional, defaults, strict=True)
        ]
        parameters += [_parameter(args.vararg, "VAR_POSITIONAL")] if args.vararg else []
        parameters += [
            _parameter(node, "KEYWORD_ONLY", default)
            for node, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        ]
        parameters += [_parameter(args.kwarg, "VAR_KEYWORD")] if args.kwarg else []
        return function.name, inspect.Signature(parameters)
    except (AttributeError, ValueError):  # not a function, or Python would refuse it
        raise ParseError("no signature") from None


def _parameter(node: ast.arg, kind: str, default: ast.AST | None = None) -> inspect.Parameter:
    """Make a parameter. A default that is not a literal becomes a name that no argument can equal."""
    if default is None:
        value = inspect.Parameter.empty
    else:
        try:
            value = calls.read_node(default)
        except ParseError:
            value = calls.Name(f"(default of {node.arg})")
    return inspect.Parameter(node.arg, getattr(inspect.Parameter, kind), default=value)


def grade(answer: str, gold: str, known: list[str]) -> bool:
    """Return whether two programs record the same calls, and at least one call."""
    signatures = dict(map(signature, known))
    undocumented = dict.fromkeys(called(gold) - signatures.keys())
    made = records(answer, signatures | undocumented)
    return bool(made) and made == records(gold, signatures | undocumented)


def called(text: str) -> set[str]:
    """Return the names of the functions that a program calls."""
    nodes = ast.walk(_parsed(text) or ast.Module([]))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def records(text: str, signatures: dict[str, inspect.Signature | None]) -> list[Record]:
    """Return the records of the dummies.

    If the signature is None, arguments are recorded by place or by name, as in the call. A call of a function that is
    not in ``signatures`` ends the program.
    """
    made: list[Record] = []
    tree = _parsed(text)
    names: dict[str, Any] = {}
    try:
        for statement in tree.body if tree else ():
            _run(statement, names, signatures, made)
    except (_StopError, TypeError, ParseError):
        pass
    return made


def _run(statement: ast.stmt, names: dict, signatures: dict, made: list[Record]) -> None:
    match statement:
        case ast.Expr(value=node):
            _value(node, names, signatures, made)
        case ast.Assign(targets=[ast.Name(id=name)], value=node):
            names[name] = _value(node, names, signatures, made)
        case _:
            raise _StopError


def _value(node: ast.AST, names: dict, signatures: dict, made: list[Record], depth: int = 0) -> Any:
    if depth > calls.MAX_DEPTH:
        raise _StopError

    def of(inner: ast.AST) -> Any:
        return _value(inner, names, signatures, made, depth + 1)

    match node:
        case ast.Call(func=ast.Name(id=name)):
            if name not in signatures and name != "print":
                raise _StopError
            args = [of(item) for item in node.args]
            pairs = [(keyword.arg, of(keyword.value)) for keyword in node.keywords]
            if name != "print":
                alone = signatures.keys() <= _RECORDS_ALL
                record = _recorded(args, pairs, signatures[name], alone)
                made += [(name, record)] if alone or name != _FORGOTTEN else []
            value = None
        case ast.Constant():
            value = calls.read_node(node)
        case ast.Name(id=name) if name in names:
            value = names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = -of(operand)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            value = (tuple if isinstance(node, ast.Tuple) else list)(of(item) for item in items)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            value = {of(key): of(item) for key, item in zip(keys, values, strict=True)}
        case _:
            for inner in filter(lambda inner: isinstance(inner, ast.expr), ast.iter_child_nodes(node)):
                of(inner)  # calls before the error are recorded
            raise _StopError
    return value


def _recorded(args: list, pairs: list, documented: inspect.Signature | None, whole: bool) -> dict[str, Any]:
    if any(key is None for key, _ in pairs):
        raise _StopError
    if documented is None:
        given = {str(place): value for place, value in enumerate(args)} | dict(pairs)
        return {key: value for key, value in given.items() if value}
    bound = documented.bind(*args, **dict(pairs))
    bound.apply_defaults()
    kinds = {key: parameter.kind for key, parameter in documented.parameters.items()}
    given = {key: value for key, value in bound.arguments.items() if kinds[key] is not inspect.Parameter.VAR_KEYWORD}
    return {key: value for key, value in given.items() if value or whole}
