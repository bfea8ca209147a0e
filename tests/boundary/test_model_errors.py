"""What pydantic finds wrong is said in plain words."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import ConfigDict, Field

from meta_eval.base.errors import UserError
from meta_eval.base.model_errors import Public


class Part(Public):
    key: int = 0


class Some(Public):
    model_config = ConfigDict(extra="forbid")

    must: int = 0
    text: Annotated[str, Field(min_length=2, max_length=4, pattern="^a")] = "ab"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    count: Annotated[int, Field(ge=1, le=9, multiple_of=2)] = 2
    names: Annotated[list[str], Field(min_length=1)] = ["a"]  # noqa: RUF012
    table: Annotated[dict[str, int], Field(max_length=1)] = {}  # noqa: RUF012
    part: Part = Part()
    yes: bool = True
    kind: Literal["alpha", "beta"] = "alpha"
    none: None = None
    of: frozenset[int] = frozenset()


class Needing(Public):
    must: int


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mst": 1}, "mst: there is no such key"), ({"must": "x"}, "must: it must be a whole number"),
        ({"must": 1.5}, "must: it must be a whole number"), ({"text": "a"}, "text: it must have at least 2 characters"),
        ({"text": "abcde"}, "text: it must have at most 4 characters"), ({"text": "bb"}, "text: it must match '^a'"),
        ({"text": 1}, "text: it must be a text"), ({"share": "x"}, "share: it must be a number"),
        ({"share": 0}, "share: it must be more than 0"), ({"share": 1}, "share: it must be less than 1"),
        ({"count": 0}, "count: it must be 1 or more"), ({"count": 10}, "count: it must be 9 or less"),
        ({"count": 3}, "count: it must be a multiple of 2"), ({"names": "x"}, "names: it must be a list"),
        ({"names": []}, "names: it must have at least 1 item"), ({"table": []}, "table: it must be a mapping of keys to values"),
        ({"table": {"a": 1, "b": 2}}, "table: it must have at most 1 item"),
        ({"part": 1}, "part: it must be a mapping of keys to values"), ({"yes": "x"}, "yes: it must be true or false"),
        ({"kind": "alpa"}, "kind: it must be 'alpha' or 'beta'; did you mean 'alpha'?"), ({"none": 1}, "none: it must be null"),
        ({"of": 1}, "of: it must be a list"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_described_without_words_of_pydantic(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        Some.model_validate(given)
    assert str(caught.value) == f"Some: {words}"


def test_a_value_that_is_missing_is_said_to_be() -> None:
    with pytest.raises(UserError, match=r"^Needing: must: it is missing$"):
        Needing.model_validate_json("{}")
