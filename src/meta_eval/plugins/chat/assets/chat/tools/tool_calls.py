"""Grade the tool calls of a chat message against the gold calls of its doc.

Right calls are the gold's, in any order and as often. Arguments are compared as JSON values: 1 equals 1.0, true is not
1, strings are equal to the letter, the order of an array counts and that of an object's keys does not. An omitted
argument equals its ``default`` in the schema, because the tool then does the same.

Where no call is wanted, a message without a call is right only if it has text: a model that was cut while thinking has
decided nothing.

`json_schema` says which parts of a schema are checked.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

_spec = spec_from_file_location("json_schema", Path(__file__).with_name("json_schema.py"))
assert _spec is not None and _spec.loader is not None  # noqa: S101 (the file is there)
_spec.loader.exec_module(json_schema := module_from_spec(_spec))

Metrics = dict[str, float | list[bool]]

MAX_DEPTH = 64  # of arrays and objects in each other
_AROUND = 8  # more of them in a message, around the arguments of a call
MAX_DIGITS = 400  # of an integer; the largest double has 309

_POOLED = ("tool_call_precision", "tool_call_recall", "tool_call_f1", "schema_accuracy", "arguments_match")


class Call(NamedTuple):
    """A tool call. Its arguments are None if their text is not a JSON object."""

    name: str
    arguments: dict[str, Any] | None
    text: str


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> Metrics:
    """Score a message as `compare_calls` does.

    Args:
        doc: ``gold_calls`` are the wanted calls, null or empty if none is wanted. ``tools`` are those of the request.
            Both are JSON values or their texts.
        results: The message, a JSON text with ``content`` and ``tool_calls``. Other text counts as the content.

    Returns:
        The metrics, and ``ungraded``: 1 if the tools or gold calls cannot be read.
    """
    try:
        gold, tools = _read_value(doc["gold_calls"]), _read_value(doc["tools"])
        return {**compare_calls(gold, _read_message(results[0]), tools), "ungraded": 0.0}
    except (ValueError, KeyError):
        return {"exact_match": 0.0, "name_match": 0.0, **{name: [] for name in _POOLED}, "ungraded": 1.0}


def compare_calls(gold: object, message: Mapping[str, Any], tools: object) -> Metrics:
    """Compare the calls of a message with the gold calls.

    Args:
        gold: A list of ``{"name", "arguments"}``; null or empty if no call is wanted. Arguments are an object or its
            JSON text.
        message: ``content`` and ``tool_calls``, which are as ``gold``.
        tools: As an endpoint gets them: ``{"type": "function", "function": {"name", "parameters"}}``.

    Returns:
        - ``exact_match``, ``name_match``: 1 if the calls, or the names of the called tools, are the gold's.
        - ``tool_call_precision``: whether a call is wanted, if there is one.
        - ``tool_call_recall``: whether there is a call, if one is wanted.
        - ``tool_call_f1``: true twice if there is a call and one is wanted, false if only one of both is so. The share
          of true over all docs is the harmonic mean of precision and recall.
        - ``schema_accuracy``: for each call, whether its tool exists and its arguments are valid.
        - ``arguments_match``: for each call with the name of a gold call, whether it is equal to one. Each gold call is
          used once.

        The last five are lists of verdicts. `pool_verdicts` takes the share of true over all docs.

    Raises:
        ValueError: The gold calls or tools are not of this form.
    """
    schemas = read_tools(tools)
    wanted, made = _read_calls(gold), _read_calls(message.get("tool_calls"))
    content = message.get("content")
    has_answered = bool(made) or (isinstance(content, str) and bool(content.strip()))
    wanted_keys, made_keys = (Counter(_make_call_key(call, schemas) for call in calls) for calls in (wanted, made))
    wanted_names, made_names = (Counter(call.name for call in calls) for calls in (wanted, made))
    pairs, equal = (wanted_names & made_names).total(), (wanted_keys & made_keys).total()
    is_wanted, is_made = bool(wanted), bool(made)
    return {
        "exact_match": float(has_answered and wanted_keys == made_keys),
        "name_match": float(has_answered and wanted_names == made_names),
        "tool_call_precision": [is_wanted] if is_made else [],
        "tool_call_recall": [is_made] if is_wanted else [],
        "tool_call_f1": [True, True] if is_wanted and is_made else [False] if is_wanted or is_made else [],
        "schema_accuracy": [_is_valid(call, schemas) for call in made],
        "arguments_match": [True] * equal + [False] * (pairs - equal),
    }


def pool_verdicts(docs: Sequence[Sequence[bool]]) -> float:
    """The share of true among the verdicts of all docs. NaN if there is none."""
    verdicts = [verdict for doc in docs for verdict in doc]
    return sum(verdicts) / len(verdicts) if verdicts else math.nan


def read_tools(tools: object) -> dict[str, Any]:
    """Read the schema of each tool's arguments, by name. Without one, any object is allowed.

    Raises:
        ValueError: It is not a list of tools, a tool has no name or a name twice, or a schema is neither object nor
            boolean.
    """
    if not isinstance(tools, list):
        raise ValueError("the tools are no list")
    schemas = {}
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str):
            raise ValueError("a tool has no name")
        if name in schemas:
            raise ValueError(f"two tools have the name {name!r:.80}")
        parameters = function.get("parameters", function.get("input_schema"))
        if not isinstance(parameters, dict | bool | None):
            raise ValueError(f"the parameters of the tool {name!r:.80} are no schema")
        schemas[name] = json_schema.Schema({} if parameters is None else parameters)
    return schemas


def find_unchecked(tools: object) -> set[str]:
    """Find the keywords in the schemas of tools that would check something and are not checked.

    Raises:
        ValueError: As of `read_tools`.
    """
    return {keyword for schema in read_tools(tools).values() for keyword in schema.find_unchecked()}


def _is_valid(call: Call, schemas: Mapping[str, Any]) -> bool:
    return call.name in schemas and call.arguments is not None and schemas[call.name].accepts(call.arguments)


def _make_call_key(call: Call, schemas: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two equal calls have in common. Arguments that are not an object are compared by their text."""
    if call.arguments is None:
        return call.name, call.text
    schema = schemas.get(call.name)
    return call.name, json_schema.make_key(schema.add_defaults(call.arguments) if schema else call.arguments)


# JSON


def parse_json(text: str) -> Any:
    """Parse JSON. A number with a fraction or an exponent becomes the nearest double.

    Raises:
        ValueError: It is not JSON, repeats a key, is too deep, or has a number that is not finite or has too many
            digits.
    """
    try:
        value = json.loads(
            text,
            parse_int=_read_integer,
            parse_float=_read_double,
            parse_constant=_refuse_constant,
            object_pairs_hook=_read_object,
        )
    except RecursionError:
        raise ValueError("is too deep") from None
    check_depth(value)
    return value


def check_depth(value: object, left: int = MAX_DEPTH) -> None:
    """Check that arrays and objects are not too deep in each other.

    Raises:
        ValueError: They are.
    """
    if left < 0:
        raise ValueError("is too deep")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_depth(part, left - 1)


def _read_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("has a huge number")
    return int(text)


def _read_double(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("has a huge number")
    return number


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"has {text}, which is not JSON")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("repeats a key")
    return value


def _read_value(value: object) -> object:
    if isinstance(value, str):
        return parse_json(value)
    check_depth(value)
    return value


def _read_message(text: str) -> Mapping[str, Any]:
    try:
        message = json.loads(text)
        check_depth(message, MAX_DEPTH + _AROUND)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else {"content": text}


def _read_calls(calls: object) -> list[Call]:
    if calls is None:
        return []
    if not isinstance(calls, list):
        raise ValueError("the calls are no list")
    return [_read_call(call) for call in calls]


def _read_call(call: object) -> Call:
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str):
        raise ValueError("a call has no name")
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else ""
    try:
        # Some servers give an empty text instead of an empty object.
        value = {} if arguments is None or (arguments == text and not text.strip()) else _read_value(arguments)
    except ValueError:
        value = None
    return Call(name, value if isinstance(value, dict) else None, text)
