"""Counts that users measured on Meta's own rows and shared: ``meta-eval verify --share FILE`` writes them.

The files stand beside this one as JSON. They say how many recorded verdicts a grader finds again, and hold no text of a
row: every name fits a narrow pattern, and everything else is a number, a version, a date or a hash. Nobody here has
measured them. docs/reference/grader_validation.md shows them as contributed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from meta_eval.boundary.hashing import hash_json
from meta_eval.boundary.inputs import parse_json, read_text
from meta_eval.catalog import CatalogFact, Percent
from meta_eval.messages.errors import DataError

# Names of the evals dataset that are embedded, to try it out.
SAMPLE = "sample"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,80}$")]
Metric = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_@.-]{1,60},[A-Za-z0-9_@.-]{1,60}$")]
Dataset = Annotated[str, StringConstraints(pattern=rf"^({SAMPLE}|[A-Za-z0-9-]{{1,60}}/[A-Za-z0-9_.-]{{1,100}})$")]
Commit = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|sha256:[0-9a-f]{64})$")]
ColumnType = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_<>:, \[\]()]{1,200}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9][0-9a-z.+]{0,30}$")]
Date = Annotated[str, StringConstraints(pattern=r"^20\d\d-\d\d-\d\d$")]


class Counts(CatalogFact):
    """Docs, those with both verdicts, and those on which both are the same."""

    docs: int = Field(ge=0)
    compared: int = Field(ge=0)
    agreed: int = Field(ge=0)

    @model_validator(mode="after")
    def _are_parts(self) -> Self:
        if not self.agreed <= self.compared <= self.docs:
            raise ValueError(f"{self.agreed} agreed of {self.compared} compared of {self.docs} docs")
        return self


class SharedTask(CatalogFact):
    """What was measured of a task.

    Attributes:
        dataset, commit: The evals dataset of the hub.
        subset: Its subset.
        columns: The types of the columns of the docs, by name.
        counts: Of the task.
        subtasks: Of its subtasks, which add up to it. A name that could hold text is replaced by its hash.
        metric: ``metric,filter`` of the verdicts.
        ours, theirs, published: The score of our verdicts, of the recorded ones, and the published number; percent.
        prompts_sha256: Of the sorted hashes of the prompts.
        grader_sha256: Of the modules that grade (`sign_grader`).
    """

    dataset: Dataset
    commit: Commit
    subset: Name
    columns: Mapping[Name, ColumnType] = Field(max_length=100)
    counts: Counts
    subtasks: Mapping[Name, Counts] = Field(default={}, max_length=500)
    metric: Metric
    ours: Percent | None = None
    theirs: Percent | None = None
    published: Percent | None = None
    prompts_sha256: Sha256 | None = None
    grader_sha256: Sha256

    @model_validator(mode="after")
    def _subtasks_add_up(self) -> Self:
        for name in ("docs", "compared", "agreed") if self.subtasks else ():
            parts, whole = sum(getattr(part, name) for part in self.subtasks.values()), getattr(self.counts, name)
            if parts != whole:
                raise ValueError(f"the subtasks have {parts} {name}, and the task {whole}")
        return self


class SharedCounts(CatalogFact):
    """The content of a file."""

    schema_version: Literal[1] = 1
    date: Date
    meta_eval: Version
    lm_eval: Version
    python: Version
    tasks: Mapping[Name, SharedTask] = Field(min_length=1, max_length=200)

    def format(self) -> str:
        """The file: JSON that a person can read in a minute."""
        return json.dumps(self.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"


def read_shared_counts(text: str, where: str) -> SharedCounts:
    """Read a file of counts.

    Raises:
        DataError: It is malformed, its counts do not add up, or a name could hold text.
    """
    try:
        return SharedCounts.model_validate(parse_json(text))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataError(
            f"{place}: {first['msg']}" if place else str(first["msg"]), where=where,
            hint="Share the file that `meta-eval verify --share` wrote, unedited",
        ) from None  # fmt: skip
    except ValueError as error:
        raise DataError(f"is not JSON: {error}", where=where) from None


def list_contributed() -> Iterator[tuple[str, SharedCounts]]:
    """The files that were contributed, by name.

    Raises:
        DataError: As in `read_shared_counts`, or a file is of the embedded sample.
    """
    for file in sorted(Path(str(files(__name__))).glob("*.json")):
        counts = read_shared_counts(read_text(file), file.name)
        if any(task.dataset == SAMPLE for task in counts.tasks.values()):
            raise DataError("is of the embedded sample", where=file.name, hint="Contribute counts of Meta's rows")
        yield file.name, counts


def sign_grader(template: str, hashes: Mapping[str, str]) -> str:
    """A hash of the modules that grade a task: those in its folder and in ``_common``, as template folder and pack have
    them.

    Args:
        template: The task's YAML, relative to the template folder.
        hashes: The SHA-256 of each file there, by its relative path.
    """
    folder = template.partition("/")[0]
    names = [name for name in hashes if name.endswith(".py") and name.partition("/")[0] in (folder, "_common")]
    return hash_json({name: hashes[name] for name in sorted(names) if name.rpartition("/")[2] not in _WRITTEN})


# Modules that prepare writes into a pack.
_WRITTEN = frozenset(("pack_docs.py", "next_token.py", "punkt_docs.py", "chat_task.py"))


def shorten_name(name: str) -> str:
    """A name that cannot hold text: itself where it fits, else the start of its hash."""
    fits = len(name) <= 80 and all(char.isascii() and (char.isalnum() or char in "_.:-") for char in name)
    return name if name and fits else f"sha256:{hash_json(name)[:16]}"


def parse_types(schema: Any) -> dict[str, str]:
    """The columns of a pyarrow schema: the type of each, by a name that cannot hold text."""
    return {shorten_name(field.name): str(field.type) for field in schema}
