"""Checks JSON values against JSON Schemas. Both may be hostile.

Schemas are those of draft 2020-12, and what tools still use of older drafts. As in the specification, ``format`` and
unknown keywords check nothing. `Schema.find_unchecked` names the keywords that would check something and are ignored:
references that leave the schema, patterns that may run long, and a few rare keywords.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

MAX_DEPTH = 64  # references in a row
MAX_LEVELS = 100  # checks in each other
MAX_STEPS = 50_000  # to check a value
MAX_PATTERN_LENGTH = 1000
MAX_PATTERN_WAYS = 10**6  # to match a pattern with a text


def make_key(value: object) -> tuple[Any, ...]:
    """What equal JSON values have in common, and no others."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, float) and value.is_integer():
        return ("number", int(value))
    if isinstance(value, int | float):
        return ("number", value)
    if isinstance(value, list):
        return ("array", *map(make_key, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, make_key(part)) for name, part in value.items()))
    return ("string", value)


# Schemas


class _TooManySteps(Exception):  # noqa: N818 (a signal, not an error)
    pass


class Schema:
    """A JSON Schema; ``root`` is an object or a boolean."""

    def __init__(self, root: dict[str, Any] | bool) -> None:
        self._root = root
        self._steps = 0
        self._active: set[tuple[int, int]] = set()

    def accepts(self, value: object) -> bool:
        """Whether a JSON value is valid. A value that takes more than `MAX_STEPS` steps is not."""
        self._steps, self._active = MAX_STEPS, set()
        try:
            return self.check(self._root, value)
        except _TooManySteps:
            return False

    def check(self, schema: Any, value: object) -> bool:
        """Whether a value is valid under a part of the schema. A reference that leads back to itself allows it."""
        self.count_steps(1)
        if len(self._active) > MAX_LEVELS:
            raise _TooManySteps
        place = id(schema), id(value)
        if not isinstance(schema, dict) or place in self._active:
            return schema is not False
        self._active.add(place)
        try:
            return all(_RULES[name].check(self, schema, value) for name in schema if _is_usable(schema, name))
        finally:
            self._active.discard(place)

    def count_steps(self, steps: int) -> None:
        """Count steps of a check, and end it after too many."""
        self._steps -= steps
        if self._steps < 0:
            raise _TooManySteps

    def resolve(self, reference: str) -> Any:
        """The part of the schema that a reference names; None if it does not exist."""
        part: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(part, dict):
                part = part.get(name)
            else:
                is_place = isinstance(part, list) and re.fullmatch("[0-9]{1,6}", name) and int(name) < len(part)
                part = part[int(name)] if is_place else None
        return part

    def find_unchecked(self) -> Iterator[str]:
        """Yield the keywords that would check something and are not checked."""
        waiting, seen = [self._root], set[int]()
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            for name, argument in schema.items():
                if name in _UNCHECKED or (name in _RULES and not _is_usable(schema, name)):
                    yield name
                elif name in _NAMED_PARTS and isinstance(argument, dict):
                    waiting += argument.values()
                elif name in _PARTS:
                    waiting += argument if isinstance(argument, list) else [argument]
                elif name == "$ref":
                    waiting.append(part := self.resolve(argument))
                    if not isinstance(part, dict | bool):
                        yield name

    def add_defaults(self, value: Any) -> Any:
        """Add omitted properties that have a default, also to parts of the value."""
        return self._add_defaults(value, self._root)

    def _add_defaults(self, value: Any, schema: Any) -> Any:
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict) or "properties" in schema or not _is_usable(schema, "$ref"):
                break
            schema = self.resolve(schema["$ref"])
        if not isinstance(schema, dict):
            return value
        properties, items = schema.get("properties"), schema.get("items")
        if isinstance(value, dict) and isinstance(properties, dict):
            with_default = {
                name: part["default"]
                for name, part in properties.items()
                if isinstance(part, dict) and "default" in part
            }
            given = {name: self._add_defaults(part, properties.get(name)) for name, part in value.items()}
            return with_default | given
        if isinstance(value, list):
            return [self._add_defaults(part, items) for part in value]
        return value


# Keywords


class _Rule(NamedTuple):
    """A keyword."""

    is_usable: Callable[[Any], bool]
    """Whether its argument is well-formed."""

    check: Callable[[Schema, dict[str, Any], Any], bool]
    """Whether a value is valid under it. It gets the schema that the keyword is in, and the value."""


def _is_usable(schema: dict[str, Any], name: str) -> bool:
    return name in schema and name in _RULES and _RULES[name].is_usable(schema[name])


def _is_schema(argument: object) -> bool:
    return isinstance(argument, dict | bool)


def _is_list_of_schemas(argument: object) -> bool:
    return isinstance(argument, list) and all(map(_is_schema, argument))


def _is_schema_or_list(argument: object) -> bool:
    return _is_schema(argument) or _is_list_of_schemas(argument)


def _is_number(argument: object) -> bool:
    is_finite = isinstance(argument, int) or (isinstance(argument, float) and math.isfinite(argument))
    return is_finite and not isinstance(argument, bool)


def _is_count(argument: Any) -> bool:
    return _is_number(argument) and argument >= 0


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == int(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _is_type(argument: object) -> bool:
    names = argument if isinstance(argument, list) else [argument]
    return all(isinstance(name, str) and name in _TYPES for name in names)


def _check_type(run: Schema, schema: dict[str, Any], value: Any) -> bool:  # noqa: ARG001
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return any(_TYPES[name](value) for name in names)


def _check_enum(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    run.count_steps(len(schema["enum"]))
    return make_key(value) in map(make_key, schema["enum"])


def _check_properties(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    parts = schema["properties"]
    return not isinstance(value, dict) or all(run.check(parts[name], value[name]) for name in value if name in parts)


def _check_other_properties(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    """``additionalProperties``. Beside ``patternProperties`` nobody knows which properties it is about."""
    if not isinstance(value, dict) or "patternProperties" in schema:
        return True
    known = schema["properties"] if _is_usable(schema, "properties") else {}
    return all(run.check(schema["additionalProperties"], value[name]) for name in value if name not in known)


def _check_items(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    """``items``, behind those of ``prefixItems``; in older drafts a list is what is ``prefixItems`` today."""
    if not isinstance(value, list):
        return True
    if isinstance(schema["items"], list):
        return all(map(run.check, schema["items"], value))
    start = len(schema["prefixItems"]) if _is_usable(schema, "prefixItems") else 0
    return all(run.check(schema["items"], item) for item in value[start:])


def _check_unique(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    if not isinstance(value, list) or not schema["uniqueItems"]:
        return True
    run.count_steps(len(value))
    return len({make_key(item) for item in value}) == len(value)


def _check_condition(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    branch = "then" if run.check(schema["if"], value) else "else"
    return not _is_schema(schema.get(branch)) or run.check(schema[branch], value)


def _as_fraction(number: float) -> Fraction:
    """A number as it is written, so that 0.3 is a multiple of 0.1."""
    return Fraction(repr(number))


def _check_pattern(run: Schema, schema: dict[str, Any], value: Any) -> bool:
    compiled = _compile_pattern(schema["pattern"])
    if not isinstance(value, str) or compiled is None:
        return True
    pattern, optional, variable = compiled
    ways = 2**optional * (len(value) + 1) ** variable
    if ways > MAX_PATTERN_WAYS:
        return True
    run.count_steps(ways // 100)
    return pattern.search(value) is not None


# A pattern of single characters with quantifiers: no groups, alternatives or back references.
_ATOM = r"(?:\\[dDwWsS]|\\[^\w\s]|\[\^?(?:\\[dDwWsS]|\\[^\w\s]|[^\\\[\]])+\]|[^\\\[\](){}^$|*+?])"
_QUANTIFIED = re.compile(_ATOM + r"([*+?]|\{\d{1,4}(?:,\d{0,4})?\})?")
_PLAIN = re.compile(rf"\^?(?:{_QUANTIFIED.pattern})*\$?")


@lru_cache(maxsize=256)
def _compile_pattern(text: str) -> tuple[re.Pattern[str], int, int] | None:
    """Compile a pattern of ECMA-262, and count the atoms that may be left out and those that may be repeated.

    None if it may run long, or differs from a pattern of Python.
    """
    if len(text) > MAX_PATTERN_LENGTH or not _PLAIN.fullmatch(text):
        return None
    is_bound, ends = text.startswith("^"), text.endswith("$") and not text.endswith("\\$")
    quantifiers = [match[1] for match in _QUANTIFIED.finditer(text, is_bound, len(text) - ends)]
    optional = quantifiers.count("?")
    variable = sum(bool(part) and part != "?" and ("," in part or part in "*+") for part in quantifiers)
    try:
        return re.compile(text[: len(text) - ends] + r"\Z" * ends, re.ASCII), optional, variable + (not is_bound)
    except (re.error, OverflowError):
        return None


def _make_rules() -> Iterator[tuple[str, _Rule]]:
    sizes: tuple[tuple[str, str, Callable[[Any], Any], Callable[[Any], bool]], ...] = (
        ("string", "Length", len, _is_count),
        ("array", "Items", len, _is_count),
        ("object", "Properties", len, _is_count),
        ("number", "imum", lambda number: number, _is_number),
    )
    for kind, ending, size, is_usable in sizes:
        for start, compare in (("min", operator.ge), ("max", operator.le)):
            yield start + ending, _make_limit(start + ending, _TYPES[kind], size, compare, is_usable)
    for name, compare in (("exclusiveMinimum", operator.gt), ("exclusiveMaximum", operator.lt)):
        yield name, _make_limit(name, _is_number, lambda number: number, compare, _is_number)
    for name, combine in (("allOf", all), ("anyOf", any), ("oneOf", lambda verdicts: sum(verdicts) == 1)):
        yield name, _make_combination(name, combine)


def _make_limit(
    name: str,
    applies: Callable[[Any], bool],
    size: Callable[[Any], Any],
    compare: Callable[[Any, Any], bool],
    is_usable: Callable[[Any], bool],
) -> _Rule:
    return _Rule(is_usable, lambda _, schema, value: not applies(value) or compare(size(value), schema[name]))


def _make_combination(name: str, combine: Callable[[Iterable[bool]], bool]) -> _Rule:
    return _Rule(
        _is_list_of_schemas, lambda run, schema, value: combine(run.check(part, value) for part in schema[name])
    )


_RULES: dict[str, _Rule] = {
    "type": _Rule(_is_type, _check_type),
    "enum": _Rule(lambda argument: isinstance(argument, list), _check_enum),
    "const": _Rule(lambda _: True, lambda _, schema, value: make_key(value) == make_key(schema["const"])),
    "properties": _Rule(lambda argument: isinstance(argument, dict), _check_properties),
    "additionalProperties": _Rule(_is_schema, _check_other_properties),
    "propertyNames": _Rule(
        _is_schema,
        lambda run, schema, value: (
            not isinstance(value, dict) or all(run.check(schema["propertyNames"], name) for name in value)
        ),
    ),
    "required": _Rule(
        lambda argument: isinstance(argument, list) and all(isinstance(name, str) for name in argument),
        lambda _, schema, value: not isinstance(value, dict) or value.keys() >= set(schema["required"]),
    ),
    "items": _Rule(_is_schema_or_list, _check_items),
    "prefixItems": _Rule(
        _is_list_of_schemas,
        lambda run, schema, value: not isinstance(value, list) or all(map(run.check, schema["prefixItems"], value)),
    ),
    "uniqueItems": _Rule(lambda argument: isinstance(argument, bool), _check_unique),
    "multipleOf": _Rule(
        lambda argument: _is_number(argument) and argument > 0,
        lambda _, schema, value: not _is_number(value) or _as_fraction(value) % _as_fraction(schema["multipleOf"]) == 0,
    ),
    "pattern": _Rule(
        lambda argument: isinstance(argument, str) and _compile_pattern(argument) is not None, _check_pattern
    ),
    "not": _Rule(_is_schema, lambda run, schema, value: not run.check(schema["not"], value)),
    "if": _Rule(_is_schema, _check_condition),
    "$ref": _Rule(
        lambda argument: isinstance(argument, str) and re.match(r"#(?:/|\Z)", argument) is not None,
        lambda run, schema, value: run.check(run.resolve(schema["$ref"]), value),
    ),
    **dict(_make_rules()),
}

# Keywords that are not checked.
_UNCHECKED = frozenset(
    (
        "additionalItems", "contains", "dependencies", "dependentRequired", "dependentSchemas", "maxContains",
        "minContains", "patternProperties", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef",
        "$recursiveRef",
    )
)  # fmt: skip

# Keywords whose arguments are schemas, lists of schemas, or schemas by name.
_PARTS = frozenset(
    (
        "additionalProperties", "allOf", "anyOf", "else", "if", "items", "not", "oneOf", "prefixItems",
        "propertyNames", "then",
    )
)  # fmt: skip
_NAMED_PARTS = frozenset(("$defs", "definitions", "properties"))
