"""Which models and deployments gave a task's answers, as its results file tells it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from meta_eval.base.addresses import hash_address
from meta_eval.base.escaping import one_line
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.results_file import as_mapping

# The most that is read of each kind, and of a name.
_MOST, _LONGEST = 40, 200


@dataclass(frozen=True, slots=True)
class AnswerOrigins:
    """Which models and deployments gave answers.

    Attributes:
        asked: The requested model; None if unknown.
        models: Answers by the model that they name. Answers that name none are in no count.
        endpoints: Answers by deployment, given by the hashes of its addresses; None where the number is unknown.
    """

    asked: str | None = None
    models: Mapping[str, int] = field(default_factory=dict)
    endpoints: Mapping[tuple[str, ...], int | None] = field(default_factory=dict)

    @property
    def other_models(self) -> dict[str, int]:
        """Answers by the model that they name, without those that name the requested model."""
        return {name: count for name, count in self.models.items() if name != self.asked}

    def __str__(self) -> str:
        parts = []
        if self.other_models:
            parts.append(f"answers name {count_names(self.models)}")
        parts += [f"address {', '.join(addresses)}" for addresses in self.endpoints]
        return "; ".join(parts)


def count_names(counts: Mapping[Any, int | None]) -> str:
    """``org/model-0806 (60), org/model-0513 (60)``."""
    return join_names([name if count is None else f"{name} ({count:,})" for name, count in counts.items()], NAMED)


def read_origins(content: object, model_args: Mapping[str, str]) -> AnswerOrigins:
    """Read the origins of a task's answers. Whatever is no origin is left out.

    Args:
        content: The entry of the task in ``config.meta_eval.origins``.
        model_args: Of lm-eval, whose ``base_url`` is the address of all answers.
    """
    origins = as_mapping(content)
    endpoints: dict[tuple[str, ...], int | None] = {}
    deployed = origins.get("endpoints")
    for entry in deployed[:_MOST] if isinstance(deployed, list) else ():
        addresses = as_mapping(entry).get("addresses")
        if isinstance(addresses, list) and addresses:
            endpoints[tuple(_text(address) for address in addresses[:_MOST])] = _count(as_mapping(entry).get("answers"))
    if not endpoints and "base_url" in model_args:
        with suppress(ValueError):
            endpoints[hash_address(model_args["base_url"]),] = None
    named = ((_text(name), _count(count)) for name, count in list(as_mapping(origins.get("models")).items())[:_MOST])
    asked = origins.get("asked")
    return AnswerOrigins(
        _text(asked) if isinstance(asked, str) else None, {name: count or 0 for name, count in named}, endpoints
    )


def _text(value: object) -> str:
    return one_line(str(value))[:_LONGEST]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
