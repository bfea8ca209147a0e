"""Dataclasses as plain JSON data."""

from dataclasses import dataclass, field
from typing import ClassVar

from meta_eval.base.plain_data import NOT_WRITTEN, make_plain, written
from meta_eval.stats import Interval


@dataclass(frozen=True, slots=True)
class Example:
    value: float = float("nan")
    interval: Interval | None = Interval(0.0, 1.0)
    runs: tuple[tuple[str, int], ...] = field(default=(("A", 2),), metadata=written(dict))
    noise: str | None = field(
        default=None, metadata=written(lambda noise: {"noise": noise} if noise else {}, spread=True)
    )
    read: object = field(default=print, metadata=NOT_WRITTEN)

    json_also: ClassVar = ("total", "json_rest")

    def total(self) -> int:
        return 2

    @property
    def json_rest(self) -> dict[float, int]:
        return {0.5: 1}


def test_every_field_is_written_but_hidden_ones_and_the_properties_that_its_class_names() -> None:
    plain = {"value": None, "interval": {"lower": 0.0, "upper": 1.0}, "runs": {"A": 2}, "total": 2, "rest": {"0.5": 1}}
    assert make_plain(Example()) == plain
    assert make_plain([Example(noise="some")]) == [{**plain, "noise": "some"}]
