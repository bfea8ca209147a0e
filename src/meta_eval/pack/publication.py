"""``publication.json``: what others need to rebuild a pack, without facts about its machine or model.

A rebuild takes only the names of the rows to fetch from it. The rest is compared: the rebuilt pack is described by the
reader's own templates and catalogue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from meta_eval.boundary.inputs import InputError, describe_error, parse_json, read_text
from meta_eval.boundary.model_errors import Public
from meta_eval.boundary.pack_names import PackPath, TaskName
from meta_eval.catalog.dataset_names import SAMPLE
from meta_eval.messages.errors import PackError
from meta_eval.pack.manifest import FileEntry, Manifest

PUBLICATION = "publication.json"

# Fields of a task that depend on the model and machine it was prepared for.
_OF_THE_MODEL = {"longest_prompt", "likelihood_reason"}
# Fields from a user's own run; such packs are not published.
_OF_A_RUN = {"record", "baseline"}

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"\w[\w.-]{0,95}/\w[\w.-]{0,95}", re.ASCII)

HubId = Annotated[str, Field(pattern=f"^{_HUB_ID.pattern}$")]
Commit = Annotated[str, Field(pattern=f"^{_COMMIT.pattern}$")]


class _PublicationEntry(Public):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def refusal(cls, error: ValidationError) -> PackError:
        fault = super().refusal(error)
        return PackError(fault.what, where=fault.where)


class OriginalCommit(_PublicationEntry):
    """An original dataset of the hub, as a join read it."""

    id: HubId
    revision: Commit


class Publication(_PublicationEntry):
    """A pack without its rows.

    Attributes:
        format: Of this file.
        meta_eval: The version that made the pack; for people.
        evals_dataset: Its id on the hub, or ``sample``.
        evals_revision: The commit that was read; None of the sample.
        originals: Original datasets at the commits that were read, by join.
        tasks: Tasks and groups, as lm_eval's ``--tasks`` names them.
        allow_code: Whether some tasks run programs that the model writes; the reader must allow it too.
        contents: The manifest's entry of each task, without prompt lengths.
        groups: The members of each group.
        files: Every file of the pack but its manifest.
    """

    format: Literal["meta-eval publication 2"] = "meta-eval publication 2"
    meta_eval: str = Field(pattern=r"^[0-9A-Za-z.+-]{1,40}$")
    evals_dataset: HubId | Literal["sample"]
    evals_revision: Commit | None
    originals: dict[TaskName, OriginalCommit]
    tasks: tuple[TaskName, ...] = Field(min_length=1)
    bundle: bool
    choice_scoring: Literal["likelihood", "next_token"]
    allow_unmatched: bool
    allow_code: bool
    contents: dict[TaskName, dict[str, JsonValue]] = Field(min_length=1)
    groups: dict[TaskName, tuple[TaskName, ...]]
    files: dict[PackPath, FileEntry]

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def describe_pack(pack: Path, manifest: Manifest) -> Publication:
    """Describe the publishable part of a pack.

    Args:
        pack: The folder, for messages.
        manifest: Its manifest.

    Raises:
        PackError: Its rows are not on the hub, so others cannot fetch them.
    """
    _refuse_rows_of_a_run(pack, manifest)
    prepared_from, first = manifest.prepared_from, next(iter(manifest.tasks.values()))
    of_sample = prepared_from.evals_dataset == SAMPLE
    if not of_sample:
        _need_hub(pack, "its rows come from", first.dataset_id, first.dataset_revision, "the evals dataset's id")
    originals = {}
    for join, read in manifest.originals.items():
        if of_sample and read.id.startswith(f"{first.dataset_id}/"):
            continue
        _need_hub(pack, f"its original of {join} is", read.id, read.revision, f"originals.{join} as an id")
        originals[join] = OriginalCommit(id=read.id, revision=read.revision)
    return Publication(
        meta_eval=manifest.meta_eval,
        evals_dataset=SAMPLE if of_sample else first.dataset_id,
        evals_revision=None if of_sample else first.dataset_revision,
        originals=originals,
        tasks=manifest.run_settings.tasks,
        bundle=prepared_from.bundle,
        choice_scoring=prepared_from.choice_scoring,
        allow_unmatched=prepared_from.allow_unmatched,
        allow_code=any(entry.unsafe_code for entry in manifest.tasks.values()),
        contents={
            name: entry.model_dump(mode="json", exclude=_OF_THE_MODEL | _OF_A_RUN)
            for name, entry in manifest.tasks.items()
        },
        groups=manifest.groups,
        files=manifest.files,
    )


def _refuse_rows_of_a_run(pack: Path, manifest: Manifest) -> None:
    of_record = [name for name, entry in manifest.tasks.items() if entry.record is not None]
    if of_record:
        raise PackError(
            f"{of_record[0]} comes from a run or from lm-eval's tasks, and its docs are not on the hub",
            where=str(pack),
            hint="Publish only packs made from evals datasets on the hub",
        )
    if manifest.prepared_from.baseline:
        raise PackError(
            "it holds a baseline run that others do not have",
            where=str(pack),
            hint="Prepare it with baseline: null",
        )


def _need_hub(pack: Path, what: str, name: str, revision: str, instead: str) -> None:
    if not _COMMIT.fullmatch(revision) or not _HUB_ID.fullmatch(name):
        raise PackError(f"{what} {name}, a local folder", where=str(pack), hint=f"Prepare it with {instead} on the hub")


def read_publication(folder: Path) -> Publication:
    """Read a publication. Nothing else in its folder is read.

    Raises:
        PackError: There is no publication, or it is damaged.
    """
    path = folder / PUBLICATION
    hint = "Name a folder that this version of `meta-eval export --to recipe` wrote"
    try:
        text = read_text(path)
        parse_json(text)  # no deeper than a tree may be
        return Publication.model_validate_json(text, strict=True)
    except InputError as error:
        raise PackError(f"is not a publication: {PUBLICATION} {error.what}", where=str(folder), hint=hint) from None
    except ValueError as error:
        raise PackError(f"is not JSON: {describe_error(error)}", where=str(path), hint=hint) from None
    except PackError as error:
        raise PackError(error.what, where=str(path), hint=hint) from None


def find_differences(publication: Publication, other: Publication, *, most: int) -> list[str]:
    """Find the first keys, with dots, in which two packs differ. The version of meta-eval does not count."""
    no_matter = {"format", "meta_eval"}
    trees = publication.model_dump(mode="json", exclude=no_matter), other.model_dump(mode="json", exclude=no_matter)
    return list(islice(_differing(*trees, ()), most))


def _differing(value: Any, other: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        for key in sorted(value.keys() | other.keys()):
            if key in value and key in other:
                yield from _differing(value[key], other[key], (*path, key))
            else:
                yield ".".join((*path, key))
    elif isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        for number, pair in enumerate(zip(value, other, strict=True)):
            yield from _differing(*pair, (*path, str(number)))
    elif value != other or type(value) is not type(other):
        yield ".".join(path)
