"""The keys of a configuration: meaning, type and allowed values.

Keys of Meta's recipe keep their names and meanings, so files for the recipe work unchanged. Paths stay as the user
wrote them, also in the printed command. Relative paths start at the working directory, as in the recipe. So a prepared
folder can be moved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError
from meta_eval.base.model_errors import Public
from meta_eval.base.pack_names import split_excluded
from meta_eval.base.secrets import is_secret
from meta_eval.harness.config_keys import INSTEAD, OF_SERVER, list_key_fields, make_visible, refuse_secret
from meta_eval.harness.settings import Folder, Name, RunSettings, Scalar, Settings
from meta_eval.pack.backends.registry import find_backend, find_engine_of
from meta_eval.pack.config.config_errors import ValuePlace, describe_errors
from meta_eval.pack.manifest import PreparedFrom

# Characters that lm_eval replaces by "__" in folder names, and the longest file name of common file systems.
_NOT_IN_FOLDERS = re.compile(r'["<>:/|\\?*\[\]]+')
_LONGEST_NAME = 255


def name_results_folder(model: str) -> str:
    """The folder that lm_eval writes the results of a model into, in its ``output_path``."""
    return _NOT_IN_FOLDERS.sub("__", model)


class Config(PreparedFrom, Settings, Public):
    """An evaluation: the model, the evals dataset, the tasks, and how to run them.

    Raises:
        ConfigError: A key is missing or unknown, or has an invalid value.
    """

    model_config = ConfigDict(extra="forbid")

    other_models: tuple[Name, ...] = Field(
        (),
        description="more models for `meta-eval run`, evaluated one after the other with the same pack; a "
        "list in `model_name` means the same",
    )
    work_dir: Folder = Field(
        "./work_dir", description="where the pack goes; files of yours there [stay](files.md#your-own-files)"
    )

    @model_validator(mode="after")
    def _one_tokenizer(self) -> Config:
        name = find_backend(self.backend).tokenizer
        if self.tokenizer is not None and name is None:
            raise ValueError(f"backend {self.backend} has no known tokenizer option: use model_args")
        if self.tokenizer is not None and name in self.model_args:
            raise ValueError(f"tokenizer and model_args.{name} are both set: leave model_args.{name} out")
        return self

    @model_validator(mode="before")
    @classmethod
    def _several_models(cls, data: Any) -> Any:
        names = data.get("model_name") if isinstance(data, dict) else None
        if not isinstance(names, (list, tuple)):
            return data
        if data.get("other_models"):
            raise ValueError("model_name is a list and other_models is set: leave other_models out")
        return {**data, "model_name": names[0] if names else "", "other_models": tuple(names[1:])}

    @field_validator("other_models")
    @classmethod
    def _no_model_twice(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if len({*names, info.data.get("model_name")}) <= len(names):
            raise ValueError("a model is listed twice")
        return names

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, backend: str) -> str:
        return find_backend(backend).name

    @field_validator("model_args")
    @classmethod
    def _no_reserved_argument(cls, args: dict[str, Scalar], info: ValidationInfo) -> dict[str, Scalar]:
        backend = info.data.get("backend")  # absent if invalid, which is reported instead
        reserved = find_backend(backend).reserved if backend else {}
        if backend:
            find_backend(backend).check_args(args)
        for name, value in args.items():
            if not name.strip():
                raise ValueError(f"{quoted(f'={value}')} has no name before the =")
            if name in reserved:
                raise ValueError(f"{name!r} is not allowed here: {reserved[name]}")
            if backend and (engine := find_engine_of(name, find_backend(backend))):
                raise ValueError(
                    f"{name!r} is an argument of {engine}, and backend {backend} does not have it: take it out"
                )
            if is_secret(name, value):
                raise ValueError(
                    f"{name!r} is a credential, which would be saved in the pack and printed in the command: {INSTEAD}"
                )
        return args

    @field_validator(
        "model_name",
        "tokenizer",
        "other_models",
        "evals_dataset",
        "evals_revision",
        "evals_run",
        "baseline",
        "work_dir",
        "output_path",
        "template_dir",
        "tasks",
        "base_url",
    )
    @classmethod
    def _no_secret(cls, value: Any, info: ValidationInfo) -> Any:
        for text in value if isinstance(value, tuple) else (value,):
            refuse_secret(text, OF_SERVER if info.field_name == "base_url" else INSTEAD)
        return value

    @field_validator("evals_revision", "evals_run")
    @classmethod
    def _revision_is_seen(cls, revision: str | None) -> str | None:
        return revision and make_visible(revision)

    @field_validator("model_name", "tokenizer", "work_dir", "output_path", "template_dir")
    @classmethod
    def _no_home(cls, path: str | None) -> str | None:
        """Expand ``~``. The printed command quotes paths, and lm_eval does not expand them."""
        try:
            return str(Path(path).expanduser()) if path and path.startswith("~") else path
        except RuntimeError:
            raise ValueError(f"{path!r}: no such user on this machine") from None

    @field_validator("model_name", "other_models")
    @classmethod
    def _names_a_folder(cls, value: Any) -> Any:
        """Check that the model's name works as a folder name. lm_eval would fail only after generation."""
        for name in value if isinstance(value, tuple) else (value,):
            folder = name_results_folder(name)
            if folder in (".", ".."):
                raise ValueError(f"{name!r} cannot name the results folder: write the model's full path")
            if max(len(folder.encode()), len(name.encode())) > _LONGEST_NAME:
                raise ValueError(
                    f"{quoted(name)} is too long to name the results folder ({_LONGEST_NAME} bytes at most): make a "
                    "shorter path, such as a link"
                )
        return value

    @field_validator("work_dir", "output_path")
    @classmethod
    def _no_option(cls, path: str) -> str:
        """Make a path that lm_eval finds: no option, and without ``x/..`` of a folder ``x`` that need not exist."""
        parts = Path(path).parts
        if any(part == ".." and before not in ("..", "/") for before, part in pairwise(parts)):
            real = os.path.realpath(path)
            path = real if path.startswith("/") else os.path.relpath(real)
        return f"./{path}" if path.startswith("-") else path

    @field_validator("tasks")
    @classmethod
    def _each_task_once(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        included, excluded = split_excluded(tasks)
        if not included:
            raise ValueError(f"names no task, and only leaves out {', '.join(excluded)}")
        return tuple(dict.fromkeys(tasks))

    @classmethod
    def refusal(cls, error: ValidationError) -> ConfigError:
        return describe_errors(error, ValuePlace(cls.__name__), Config)

    def run_settings(self, tasks: Sequence[str], *, runs_code: bool) -> RunSettings:
        """The settings of a pack.

        Args:
            tasks: Names for lm_eval's ``--tasks``, in order.
            runs_code: Whether scoring runs code that the model writes.
        """
        shared = {name: getattr(self, name) for name in Settings.model_fields}
        return RunSettings(
            **shared, tasks=tuple(tasks), include_path=self.work_dir, runs_code=runs_code and self.allow_code
        )


if not TYPE_CHECKING:  # with the keys of plug-ins
    Config = create_model(
        "Config",
        __base__=Config,
        __module__=__name__,
        __doc__=Config.__doc__,
        **list_key_fields(Config.model_fields),
    )
    Config.model_rebuild()  # of all models that are built late, this one is always needed, and in any thread
