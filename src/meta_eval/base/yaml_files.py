"""Reads YAML of configurations, templates, gates and cards as plain trees of limited size.

Values are those of PyYAML, as in lm-eval and Meta's recipe. Ambiguous YAML and types other than text, numbers,
booleans, lists and mappings of text are refused, with file and line. The parser works event by event without recursion,
so deep or large input cannot exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml

from meta_eval.base.display import quoted
from meta_eval.base.errors import UserError
from meta_eval.base.inputs import read_text

# The largest template has 6 KB, the card of an evals dataset about 100 KB.
MAX_BYTES = 2**20
_MAX_DEPTH = 32
MAX_ALIASES = 100
MAX_NODES = 100_000  # aliases expanded

_Place = tuple[str | int, ...]
Constructors = Mapping[str, Callable[[str], Any]]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_MOST_DIGITS = 18  # 64-bit integers
_WRONG_TEXT = re.compile("[\0\ud800-\udfff]")


_ALIKE = "indent keys of one level alike, by spaces"
_QUOTE = "here or above, a quote that is not closed, or indentation", f"Close the quote, or {_ALIKE}"

# What a parser says (libyaml's words, then PyYAML's), whether the fault is where it began to read, and what that means.
_MEANINGS: tuple[tuple[str, bool, str, str | None], ...] = (
    ("unexpected end of stream, while scanning a quoted scalar", True, "a quote is not closed", "Close it in its line"),
    ("while scanning a double-quoted scalar", False, "a backslash in double quotes", "Use single quotes"),
    ("while parsing a quoted scalar", False, "a backslash in double quotes", "Use single quotes"),
    ("did not find expected key", False, *_QUOTE),
    ("expected <block end>", False, *_QUOTE),
    ("did not find expected '-' indicator", False, *_QUOTE),
    (
        "mapping values are not allowed",
        False,
        "a colon in a text without quotes, or indentation",
        f"Put the text in quotes, or {_ALIKE}",
    ),
    ("could not find expected ':'", True, "a key without a colon, or indentation", f"Add the colon, or {_ALIKE}"),
    ("while parsing a flow", True, "a bracket is not closed", "Close it"),
    (
        "cannot start any token",
        False,
        "a tab, or a value that begins with a sign",
        "Indent by spaces, and put it in quotes",
    ),
    ("while scanning an a", False, "a text that begins with * or &", "Put it in quotes"),
)


# What may be meant where a key stands without a space behind its colon; and such a line: the key, its value. An address
# such as http://… is none.
_WITHOUT_SPACE = frozenset(
    ("a key without a colon, or indentation", "a colon in a text without quotes, or indentation")
)
_GLUED = re.compile(r"""\s*(?:-\s+)?([A-Za-z_][\w.-]*):(?!//)(["'\w\[{./-][^#]{0,60})""")


class YamlError(UserError):
    """A file is not YAML, or uses a feature that is not supported."""


class NotYamlError(YamlError):
    """The text breaks the grammar of YAML."""


@dataclass(frozen=True, slots=True)
class Yaml:
    """A parsed document."""

    tree: Any
    """Of dict, list, str, int, float, bool and None, and of what constructors of tags return."""

    lines: Mapping[_Place, int]
    """The line of each key and item, by path. Counts from 1."""


def read_yaml(path: Path, *, error: type[UserError], hint: str | None = None) -> Yaml:
    """Read a YAML file.

    Args:
        path: The file.
        error: The class of error to raise.
        hint: Advice if the file cannot be read.

    Raises:
        UserError: The file cannot be read, is not YAML, or uses an unsupported feature. Its class is ``error``.
    """
    try:
        return parse_yaml(read_text(path, limit=MAX_BYTES, hint=hint), where=str(path))
    except UserError as fault:
        raise error(fault.what, where=fault.where, hint=fault.hint) from None


def parse_yaml(
    text: str,
    *,
    where: str,
    constructors: Constructors | None = None,
    lines_in_where: bool = True,
    as_text: bool = False,
) -> Yaml:
    """Parse YAML.

    Args:
        text: A single document.
        where: Its name in messages.
        constructors: Functions for tags such as ``!function``. Other tags are refused.
        lines_in_where: Whether messages name the line.
        as_text: Read cards as the hub does: numbers and dates are text, tags are ignored, the last duplicate key wins.

    Raises:
        YamlError: See `read_yaml`.
    """
    builder = _Builder(where if lines_in_where else None, where, constructors or {}, as_text)
    if len(text) > MAX_BYTES:
        builder.refuse("is larger than 1 MiB", None)
    if match := _WRONG_TEXT.search(text):
        builder.refuse(f"holds {quoted(match[0])}, which is not text", None)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        raise _explain(error, builder, text) from None
    except yaml.YAMLError as error:
        problem = " ".join(str(getattr(error, "reason", error)).split())
        raise NotYamlError(f"is not YAML: {problem}", where=builder.place(None)) from None
    except (ValueError, OverflowError) as error:  # libyaml's wrapper raises these for invalid escapes
        raise NotYamlError(f"is not YAML: {' '.join(str(error).split())}", where=builder.place(None)) from None
    return Yaml(builder.root, builder.lines)


def _explain(error: yaml.MarkedYAMLError, builder: _Builder, text: str) -> NotYamlError:
    """Say what is probably meant by an error of the parser, which names the state that it was in."""
    found, around = (" ".join(str(words or "").split()) for words in (error.problem, error.context))
    mark = error.problem_mark or error.context_mark
    what, hint = found or around, None
    for words, begins_there, meaning, advice in _MEANINGS:
        if words in f"{found}, {around}":
            mark = (error.context_mark if begins_there else None) or mark
            what, hint = meaning, advice
            break
    if mark and what in _WITHOUT_SPACE:
        lines = text.splitlines()
        for number in (mark.line, mark.line - 1):
            glued = _GLUED.match(lines[number]) if 0 <= number < len(lines) else None
            if glued:
                what, hint = f"no space behind the colon of {glued[1]!r}", f"Write `{glued[1]}: {glued[2].rstrip()}`"
                return NotYamlError(f"is not YAML: {what}", where=builder.place(number + 1), hint=hint)
    return NotYamlError(f"is not YAML: {what}", where=builder.place(mark.line + 1 if mark else None), hint=hint)


def _events(text: str) -> Iterator[Any]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


@dataclass(slots=True)
class _OpenNode:
    """A mapping or list that has not ended."""

    value: Any
    path: _Place
    anchor: str | None
    first_node: int  # number of nodes at its start
    key: Any = None
    has_key: bool = False


@cache
def _make_resolver() -> Any:
    """What finds the type of a plain scalar; it keeps nothing."""
    return yaml.SafeLoader("")


@dataclass(slots=True)
class _Builder:
    """Builds a tree from events."""

    where: str | None
    name: str
    constructors: Constructors
    as_text: bool
    root: Any = None
    lines: dict[_Place, int] = field(default_factory=dict)
    documents: int = 0
    nodes: int = 0
    aliases: int = 0
    _last: Any = None
    stack: list[_OpenNode] = field(default_factory=list)
    anchors: dict[str, tuple[Any, int] | None] = field(default_factory=dict)  # None while under construction
    resolver: Any = field(default_factory=_make_resolver)

    def place(self, line: int | None) -> str:
        return f"{self.where}:{line}" if self.where and line else self.name

    def refuse(self, what: str, line: int | None, hint: str | None = None) -> NoReturn:
        raise YamlError(what, where=self.place(line), hint=hint)

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self.refuse("a second document begins here", line, "Keep one, without `---` between")
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor, line)
        elif isinstance(event, yaml.ScalarEvent):
            self._count(line)
            self._put(self._scalar(event, line), line, plain=event.implicit[0])
            if event.anchor:
                self.anchors[event.anchor] = (self._last, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self.stack.pop()
            if done.anchor:
                self.anchors[done.anchor] = (done.value, self.nodes - done.first_node)

    def _begin(self, event: Any, line: int) -> None:
        if event.tag is not None and not self.as_text:
            self.refuse(f"{quoted(event.tag)} is an unsupported YAML tag", line, "Write the value without it")
        if len(self.stack) >= _MAX_DEPTH:
            self.refuse(f"is nested more than {_MAX_DEPTH} deep", line)
        first_node = self.nodes
        self._count(line)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self.anchors[event.anchor] = None
        self._put(value, line, plain=False)
        top = self.stack[-1] if self.stack else None
        path: _Place = (
            () if top is None else (*top.path, top.key if isinstance(top.value, dict) else len(top.value) - 1)
        )
        self.stack.append(_OpenNode(value, path, event.anchor, first_node))

    def _alias(self, anchor: Any, line: int) -> None:
        self.aliases += 1
        span = self.anchors.get(anchor, ())
        if span == ():
            self.refuse(f"*{anchor} has no anchor above it", line, "Put a text that begins with * in quotes")
        if span is None:
            self.refuse(f"*{anchor} refers to itself", line, "Write the values out")
        if self.aliases > MAX_ALIASES:
            self.refuse(f"has more than {MAX_ALIASES} aliases", line, "Write the values out")
        value, nodes = span  # type: ignore[misc]
        self._count(line, nodes)
        self._put(value, line, plain=False)

    def _count(self, line: int, nodes: int = 1) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            self.refuse(f"holds more than {MAX_NODES:,} values", line)

    def _put(self, value: Any, line: int, *, plain: bool) -> None:
        """Put a value in its place: the root, the next item, or the next key or value."""
        self._last = value
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            self.lines[(*top.path, len(top.value))] = line
            top.value.append(value)
        elif not top.has_key:
            top.key, top.has_key = self._key(value, top.value, line, plain=plain), True
            self.lines[(*top.path, top.key)] = line
        else:
            top.value[top.key] = value
            top.has_key = False

    def _key(self, key: Any, mapping: Mapping[Any, Any], line: int, *, plain: bool) -> str:
        if self.as_text and isinstance(key, (str, bool)):
            return str(key)
        if plain and key == "<<":
            self.refuse("<< (merge) is not supported", line, "Write the keys out")
        if key is None or key == "":
            self.refuse("a key is empty", line, "Give it a name")
        if not isinstance(key, str):
            self.refuse(f"the key {quoted(key)} is not text", line, "Put it in quotes")
        if key in mapping:
            self.refuse(f"the key {quoted(key)} is given twice", line, "Keep one of them")
        return key

    def _scalar(self, event: Any, line: int) -> Any:
        text: str = event.value
        if match := _WRONG_TEXT.search(text):
            self.refuse(f"holds {quoted(match[0])}, which is not text", line)
        if event.tag is not None and not self.as_text:
            if event.tag in self.constructors:
                return self.constructors[event.tag](text)
            self.refuse(
                f"{quoted(event.tag.replace(_TAG, '!!'))} is an unsupported YAML tag",
                line,
                "Write the value without it",
            )
        if not event.implicit[0]:  # quoted
            return text
        kind = self.resolver.resolve(yaml.ScalarNode, text, (True, False)).removeprefix(_TAG)
        if kind == "null":
            return None
        if kind == "bool":
            return self.resolver.bool_values[text.lower()]
        return text if self.as_text or kind in ("str", "merge") else self._number(kind, text, line)

    def _number(self, kind: str, text: str, line: int) -> int | float:
        if kind == "int" and _INTEGER.fullmatch(text):
            if len(text.lstrip("+-")) > _MOST_DIGITS:
                self.refuse(f"{quoted(text)} has more digits than a number may have", line, "Put a text in quotes")
            return int(text.replace("_", ""))
        if kind == "float" and ":" not in text and not text.lower().endswith((".inf", ".nan")):
            value = float(text.replace("_", ""))
            if value - value == 0:
                return value
        what = {"timestamp": "a date", "value": "a sign of its own", "float": "no finite number"}.get(
            kind, "a number to some readers of YAML only"
        )
        return self.refuse(
            f"{quoted(text)} is {what}", line, "Put a text in quotes, and write numbers in decimal digits"
        )
