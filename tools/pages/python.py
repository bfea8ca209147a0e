"""docs/reference/python.md, generated from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import meta_eval.sockets
from meta_eval.cli.verb import list_verbs

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):\n", re.MULTILINE)
_CLASSES = {
    "Options and errors": (
        "pack.pack_options.PrepareOptions", "pack.pack_options.TaskOptions", "pack.pack_options.ScoringOptions",
        "pack.pack_options.VerifyOptions",
        "ask.ask_options.RunOptions", "ask.ask_options.ExportOptions", "ask.ask_options.GradingOptions",
        "judge.judging_options.JudgingOptions",
        "errors.UserError",
    ),
    "Sockets": tuple(f"sockets.{name}" for name in dir(meta_eval.sockets)),
}  # fmt: skip


def values() -> dict[str, Any]:
    """Values for python.md.j2."""
    functions = {name: getattr(meta_eval, name) for name in sorted(meta_eval.__all__) if name != "__version__"}
    groups = {
        "Functions": [
            _entry(f"meta_eval.{name}", function) for name, function in functions.items() if callable(function)
        ]
    }
    for verb in list_verbs(()):
        if verb.call:
            groups["Functions"].append(_entry(f"meta_eval.{verb.name}", verb.load_call()))
    for title, names in _CLASSES.items():
        groups[title] = [_entry(f"meta_eval.{name}", pydoc.locate(f"meta_eval.{name}")) for name in names]
    return {"groups": groups}


def _entry(name: str, thing: Any) -> dict[str, Any]:
    text, sections = _parsed((inspect.getdoc(thing) or "") if callable(thing) else "")
    if inspect.isclass(thing) and (documented := list(_field_docs(thing))):
        sections = {"Attributes": documented, **sections}
    methods = [] if not inspect.isclass(thing) or name.endswith((".Config", ".Manifest")) else list(_methods(thing))
    return {
        "name": name,
        "signature": _signature(thing, name.rpartition(".")[2]),
        "text": text,
        "sections": sections,
        "methods": methods,
    }


def _field_docs(owner: type) -> Iterator[tuple[str, str]]:
    """The fields of a class that have a docstring below them."""
    # Of its module: a class that pydantic made again has no source of its own from Python 3.13 on.
    module = ast.parse(inspect.getsource(sys.modules[owner.__module__]))
    (tree,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == owner.__name__)
    for field, below in pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield ast.unparse(field.target), _inline(" ".join(str(below.value.value).split()))


def _methods(owner: Any) -> Any:
    for name, member in vars(owner).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        text, sections = _parsed(inspect.getdoc(member) or "")
        signature = f"{name}{inspect.signature(member)}" if inspect.isfunction(member) else name
        yield {"name": name, "signature": _short(signature), "text": text, "sections": sections}


def _signature(thing: Any, name: str) -> str:
    if not callable(thing):
        return f"{name}: {type(thing).__name__}" + (f" = {thing!r}" if isinstance(thing, str | float) else "")
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        return f"class {name}"
    lines, named = [], False
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            lines.append("*")
        named = named or parameter.kind is parameter.KEYWORD_ONLY
        lines.append(_parameter(parameter))
    inside = "".join(f"    {line},\n" for line in lines)
    given = "" if inspect.isclass(thing) else f" -> {_short(str(inspect.signature(thing).return_annotation))}"
    return f"{'' if given else 'class '}{thing.__name__}(\n{inside}){given}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {_short(str(parameter.annotation))}"
    default = (
        ""
        if parameter.default is parameter.empty
        else f" = {getattr(parameter.default, '__name__', repr(parameter.default))}"
    )
    return f"{stars}{parameter.name}{kind}{default}"


def _short(text: str) -> str:
    return re.sub(r"\b(?:[a-z_]+\.)+([A-Z]\w*)", r"\1", text.replace("'", ""))


def _parsed(text: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """The prose of a docstring as Markdown, and its sections by name."""
    head, *rest = _SECTION.split(text)
    sections = {rest[i]: _items(rest[i + 1]) for i in range(0, len(rest), 2)}
    return _markdown(head), sections


def _items(text: str) -> list[tuple[str, str]]:
    items = re.split(r"\n(?=    \S)", "\n" + text.rstrip())
    pairs = []
    for item in filter(str.strip, items):
        name, colon, meaning = item.strip().partition(": ")
        pairs.append((name, meaning) if colon and re.fullmatch(r"[\w., *]+", name) else ("", item.strip()))
    return [(name, _inline(" ".join(meaning.split()))) for name, meaning in pairs]


def _markdown(text: str) -> str:
    def block(match: re.Match[str]) -> str:
        code = inspect.cleandoc(match[2])
        return f"{match[1]}\n\n```python\n{code}\n```\n"

    text = re.sub(r"(.*?):?:\n\n((?:    .*\n|\n)+)", block, text + "\n")
    parts = re.split(r"(```python\n.*?```)", text, flags=re.DOTALL)
    joined = "".join(part if part.startswith("```") else _inline(part) for part in parts)
    return re.sub(r"\n{3,}", "\n\n", joined).strip()


def _inline(text: str) -> str:
    return re.sub(r"``(.+?)``", r"`\1`", text).replace("<", "&lt;")
