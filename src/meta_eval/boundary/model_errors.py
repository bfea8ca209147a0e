"""Models that programs build. A refused value is a UserError, as it is when a file contains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from meta_eval.messages.errors import UserError


class Public(BaseModel):
    """A model of the API. pydantic's ValidationError, which quotes every value, never leaves it."""

    @classmethod
    def refusal(cls, error: ValidationError) -> UserError:
        """What is raised in its place."""
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        said = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
        return UserError(f"{key}: {said}" if key else said, where=cls.__name__)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, checked as any other: pydantic's own takes keys that there are not, and values of any kind."""
        return type(self).model_validate({**dict(self), **update}) if update else super().model_copy(deep=deep)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__pydantic_validator__ = _Validator(cls)  # type: ignore[assignment]


class _Validator:
    """pydantic's own, which plug-ins of pydantic wrap in the same way."""

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
