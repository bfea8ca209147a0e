"""Base class for models that programs build. An invalid value is a UserError, as in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from meta_eval.base.errors import UserError, describe_wrong_value


def describe_first(error: ValidationError) -> str:
    """The first thing that is wrong, in plain words behind its key."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    message = describe_wrong_value(first["msg"], first["input"])
    return f"{key}: {message}" if key else message


class Public(BaseModel):
    """A model of the API. Its errors never quote all values, as pydantic's ValidationError does."""

    @classmethod
    def refusal(cls, error: ValidationError) -> UserError:
        """The error to raise instead."""
        return UserError(describe_first(error), where=cls.__name__)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy with validation. pydantic's own copy accepts unknown keys and any value."""
        return type(self).model_validate({**dict(self), **update}) if update else super().model_copy(deep=deep)

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:
        """As pydantic's. The first use of a model that is built late calls it, too."""
        how["_parent_namespace_depth"] = how.get("_parent_namespace_depth", 2) + 1
        rebuilt = super().model_rebuild(**how)
        cls._tell_errors()
        return rebuilt

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls._tell_errors()

    @classmethod
    def _tell_errors(cls) -> None:
        if not isinstance(cls.__pydantic_validator__, _Validator):
            cls.__pydantic_validator__ = _Validator(cls)  # type: ignore[assignment]


class _Validator:
    """Wrap pydantic's validator, as plug-ins of pydantic do."""

    def __init__(self, model: type[Public]) -> None:
        self._model, self._inner = model, model.__pydantic_validator__

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def validate_python(self, *given: Any, **how: Any) -> Any:
        try:
            return self._inner.validate_python(*given, **how)
        except ValidationError as error:
            raise self._model.refusal(error) from None

    def validate_json(self, *given: Any, **how: Any) -> Any:
        try:
            return self._inner.validate_json(*given, **how)
        except ValidationError as error:
            raise self._model.refusal(error) from None
