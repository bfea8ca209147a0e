"""The place that an error names comes from the block in which it is raised."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from meta_eval.base.errors import DataError, UserError, locating


@pytest.mark.parametrize(
    ("outer", "inner", "own", "message"),
    [
        ("a file", "a row", None, "a row: is bad"),
        ("a file", None, None, "a file: is bad"),
        ("a file", "a row", "a key", "a key: is bad"),
        (None, None, None, "is bad"),
    ],
)
def test_the_innermost_place_is_named(outer: str | None, inner: str | None, own: str | None, message: str) -> None:
    with pytest.raises(DataError) as caught, locating(outer), locating(inner):
        raise DataError("is bad", where=own)
    assert str(caught.value) == message
    assert caught.value.args == (message,)


def test_a_generator_places_its_own_errors_and_not_those_of_its_reader() -> None:
    def rows() -> Iterator[int]:
        with locating("row 0"):
            yield 0
        with locating("row 1"):
            raise UserError("is bad")

    with pytest.raises(UserError, match=r"^row 1: is bad$"):
        list(rows())
    with pytest.raises(UserError, match=r"^is odd$"):
        for _ in rows():
            raise UserError("is odd")


def test_a_part_of_a_place_is_named_behind_the_place_around_it() -> None:
    with pytest.raises(DataError) as caught, locating("a file"), locating("row 1", behind=", "):
        raise DataError("is bad")
    assert str(caught.value) == "a file, row 1: is bad"
    with pytest.raises(DataError) as caught, locating("row 1", behind=", "):
        raise DataError("is bad")
    assert str(caught.value) == "row 1: is bad"


def test_a_fault_of_the_program_stays_as_it_is() -> None:
    with pytest.raises(ValueError, match="^a bug$"), locating("a file"):
        raise ValueError("a bug")


def test_what_is_wrong_has_one_full_stop_before_the_hint() -> None:
    assert str(UserError("It is no such file.", hint="Fetch it again")) == "It is no such file. Fetch it again"
