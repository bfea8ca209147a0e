"""The keys of the configuration that only Meta's datasets have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, create_model, field_validator

from meta_eval.harness.config_keys import refuse_secret
from meta_eval.plugins.meta.joins import JOINS
from meta_eval.plugins.meta.joins.join import Original
from meta_eval.sockets import ConfigKeys


class _Originals(BaseModel):
    """The source of each join's ground truth, a key per join."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _default_id(cls, value: object, info: ValidationInfo) -> object:
        """Without an id, use the default dataset. Its fallback applies unless a revision is pinned."""
        if not isinstance(value, dict) or "id" in value or info.field_name is None:
            return value
        default = JOINS[info.field_name].original
        return {"id": default.id, **({} if value.get("revision") else {"fallback": default.fallback}), **value}

    def by_join(self) -> dict[str, Original]:
        """The original of each join."""
        return {name: getattr(self, name) for name in JOINS}


if TYPE_CHECKING:
    Originals = _Originals
else:
    _KEYS = {name: (Original, join.original) for name, join in JOINS.items()}
    Originals = create_model("Originals", __base__=_Originals, **_KEYS)


def _refuse_secrets(originals: Originals) -> Originals:
    for original in originals.by_join().values():
        for text in (original.id, original.revision, original.fallback):
            refuse_secret(text)
    return originals


class MetaKeys(ConfigKeys):
    """Where joins find their originals, and what happens to rows without one."""

    allowed: ClassVar[Mapping[str, str]] = {
        "evals_dataset": "a hub id such as meta-llama/Llama-3.1-8B-Instruct-evals, a local folder, or `sample`",
        "originals": "a mapping such as {math: {id: my/math-copy, revision: main}}",
    }

    originals: Annotated[Originals, AfterValidator(_refuse_secrets)] = Field(
        Originals(), description="where joins find gold answers: [below](#originals)"
    )
    allow_unmatched: bool = Field(
        False, description="leave out rows without an original, and list them, instead of stopping"
    )
