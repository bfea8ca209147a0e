"""Arguments of tools are checked as the jsonschema package checks them, and hostile schemas cost little."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from meta_eval.plugins.chat.assets.chat.tools.json_schema import Schema

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 1.0, 0.5, 2.5, 1e300, 10**30])
TEXTS = st.sampled_from(["", "a", "ab", "1", "12-3", "a.b", "é"])
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=3) | st.dictionaries(NAMES, part, max_size=3), max_leaves=6
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "null", "array", "object"])
COUNTS = st.sampled_from([0, 1, 2])
PATTERNS = st.sampled_from(["^a", "b$", r"^\d+$", "[a-z]?", r"^\d{2}-\d*$", r"\.", "^[^a]{1,2}$", "a.b", r"^\w+$"])


def extend(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of which ``part`` are parts."""
    parts = st.lists(part, min_size=1, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "properties": st.dictionaries(NAMES, part, max_size=3),
        "additionalProperties": part,
        "propertyNames": part,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "items": part,
        "prefixItems": parts,
        "uniqueItems": st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "pattern": PATTERNS,
        "not": part,
        "if": part,
        "then": part,
        "else": part,
        "allOf": parts,
        "anyOf": parts,
        "oneOf": parts,
        "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], COUNTS),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
    }
    return st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen})
    )


LEAVES = st.booleans() | st.fixed_dictionaries({"type": TYPES})
SCHEMAS = st.recursive(LEAVES, extend, max_leaves=8)


@given(SCHEMAS, st.fixed_dictionaries({"a": LEAVES, "b": LEAVES}), VALUES)
def test_a_value_is_valid_as_jsonschema_says(schema: Any, parts: Any, value: Any) -> None:
    root = {**schema, "$defs": parts} if isinstance(schema, dict) else schema
    Draft202012Validator.check_schema(root)
    assert Schema(root).accepts(value) == Draft202012Validator(root).is_valid(value)
    assert set(Schema(root).find_unchecked()) == set()


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "number", "multipleOf": 0.1}, 0.3, True),  # as it is written, not as doubles divide
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, True, False),
        ({"items": [{"type": "string"}]}, ["a", 1], True),  # of older drafts
        ({"properties": {"n": {"$ref": "#"}}, "additionalProperties": False}, {"n": {"n": {}}}, True),
        ({"properties": {"n": {"$ref": "#"}}, "additionalProperties": False}, {"n": {"m": {}}}, False),
        ({"pattern": "^a$"}, "a\n", False),
    ],
)
def test_validity(schema: Any, value: Any, expected: bool) -> None:
    assert Schema(schema).accepts(value) is expected


@pytest.mark.parametrize(
    ("schema", "unchecked"),
    [
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, {"pattern"}),
        ({"anyOf": [{"contains": {}}]}, {"contains"}),
        ({"$ref": "https://example.com/schema"}, {"$ref"}),
        ({"$ref": "#/$defs/none"}, {"$ref"}),
        ({"$defs": {"a": {"type": "float"}}, "$ref": "#/$defs/a"}, {"type"}),
        ({"required": True, "minLength": "1"}, {"required", "minLength"}),
        ({"format": "email", "title": "a", "nullable": True}, set()),
        ({"properties": {"pattern": {"type": "string"}}}, set()),  # a property of that name
    ],
)
def test_keywords_that_are_not_checked_are_named(schema: Any, unchecked: set[str]) -> None:
    assert set(Schema(schema).find_unchecked()) == unchecked
    assert Schema(schema).accepts("a")


def fork(depth: int) -> dict[str, Any]:
    """A schema that asks twice the one below it, and so on."""
    parts = {f"s{n}": {"anyOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2, "not": True} for n in range(depth)}
    return {"$ref": "#/$defs/s0", "$defs": {**parts, f"s{depth}": False}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, {}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#/allOf/0"}]}, {}),
        (fork(60), {}),
        ({"$defs": {f"a{n}": {"$ref": f"#/$defs/a{(n + 1) % 5000}"} for n in range(5000)}, "$ref": "#/$defs/a0"}, {}),
        ({"pattern": "^(a+)+$"}, "a" * 50 + "!"),
        ({"pattern": "a*" * 20 + "b"}, "a" * 5000),
        ({"pattern": "a?" * 40 + "a" * 40}, "a" * 39),
        ({"items": {"pattern": "a*a*b"}}, ["a" * 90] * 5000),
        ({"enum": list(range(10**4))}, 10**4),
        ({"uniqueItems": True}, list(range(10**5))),
        ({"multipleOf": 1e-300}, 10**300),
    ],
)
def test_a_hostile_schema_ends_soon(schema: Any, value: Any) -> None:
    start = time.process_time()
    Schema(schema).accepts(value)
    Schema(schema).add_defaults(value)
    assert set(Schema(schema).find_unchecked()) <= {"pattern"}
    assert time.process_time() - start < 2
