"""``manifest.json``, the description of a pack. Every reader of a pack starts here."""

from __future__ import annotations

import json
import os.path
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from meta_eval.base.display import quoted
from meta_eval.base.errors import PackError
from meta_eval.base.inputs import InputError, describe_error, read_text, suggest_path
from meta_eval.base.model_errors import Public
from meta_eval.base.ownership import finish_folder
from meta_eval.base.pack_names import PackPath, TaskName
from meta_eval.base.secrets import hide_secrets
from meta_eval.harness.families import find_family
from meta_eval.harness.settings import Name, RunSettings
from meta_eval.pack.backends.base import Backend, UnknownBackendError
from meta_eval.pack.backends.registry import find_backend, suggest_backend

MANIFEST = "manifest.json"
_MAX_BYTES = 64 * 2**20

# 2: ``run`` and ``prepared_from``, typed, replace ``config``. 3: ``backend`` and its keys. 4: new names of keys.
# 5: ``known_gaps``, ``trust`` and ``invented`` of a task, which reports took from a catalog.
SCHEMA_VERSION = 5

# How far the verdicts of a grader are proven, best first.
Trust = Literal["verified", "with a verified grader", "compared", "with a compared grader", "never compared"]

# The lm-eval versions that run a pack: functions as custom filters run from 0.4.11 on.
LM_EVAL_MINIMUM = "0.4.11"
LM_EVAL_BELOW = "0.5"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class FileEntry(_Entry):
    sha256: str
    bytes: int = Field(ge=0)


class OriginalEntry(_Entry):
    """An original dataset that a join read; ``fallback`` if the configured dataset was unavailable."""

    id: str
    revision: str
    fallback: bool


class TextDifferenceEntry(_Entry):
    """A row with a text that is known to differ from its original. Texts are SHA-256 of their UTF-8."""

    name: str
    question_hash: str
    text_sha256: str
    original_sha256: str


class JoinEntry(_Entry):
    """How the rows of a task matched their originals; rows are named by question hash.

    ``matched_normalised`` holds rows that matched after Unicode and white space were normalised, ``unmatched`` rows
    that are left out because they have no original, each with the reason.
    """

    original: str
    matched: int
    matched_normalised: tuple[str, ...]
    unmatched: tuple[tuple[str, str], ...]
    known_text_differences: tuple[TextDifferenceEntry, ...] = ()


class ReferenceScoreEntry(_Entry):
    """A score (percent) that this task is compared with: a published score, or the score of a recorded run."""

    metric: str
    """The ``metric,filter`` of this task."""

    benchmark: str
    value: float = Field(ge=0, le=100, allow_inf_nan=False)
    source_metric: str | None
    """The metric as the source writes it."""

    averaging: str | None
    shots: str | None
    cot: bool | None
    same_settings: bool
    """False if the score was measured under other settings, such as other shots. Such a score is shown, but no decision
    uses it."""

    origin: Literal["published", "recorded"] = "published"
    """``published``, or ``recorded`` for the score of a recorded run."""

    source: str
    """Where it was read: the model and results file of a recorded run."""

    note: str | None


class LengthEntry(_Entry):
    """Tokens of the longest prompt with BOS, how they were determined, and the limit for prompt and answer."""

    tokens: int = Field(ge=0)
    method: Literal["counted", "bound", "estimated"]
    max_gen_toks: int = Field(ge=0)
    max_model_len: int = Field(ge=1)


class RecordEntry(_Entry):
    """The recorded run of lm-eval that a task's docs come from."""

    model: Annotated[str | None, AfterValidator(hide_secrets)]
    """The model that answered; None for a task of lm-eval without recorded answers."""

    time: str | None
    """When it was run, as its files are named."""

    results_file: str | None
    """The name of its results file."""

    lm_eval: str | None
    """The version that ran it."""

    backend: str | None
    """lm-eval's name of its engine."""

    bos_text: str | None
    """The BOS of its tokenizer, as text; None if unknown."""

    chat_template: bool
    """Whether the prompts were rendered with one."""

    shots: str | None
    """Number of examples before each question, as lm-eval wrote it."""

    task_version: str | None
    """The task's version then."""

    grader_source: str = ""
    """What the pack grades with: ``lm-eval 0.4.13``, or ``template_dir``."""

    grader_version: str | None = None
    """The task's version there."""

    bos_in_prompts: bool | None = None
    """Whether a BOS preceded its prompts; None if unknown, or if docs differ."""


class BaselineEntry(_Entry):
    """The recorded answers from a run named by ``baseline:``, for the docs of one task."""

    name: str
    """The record, as the user wrote it."""

    revision: str
    """Of its files."""

    model: str | None
    """The model that answered."""

    lm_eval: str | None
    """The version that ran it."""

    time: str | None
    """When it was run, as its files are named."""

    file: PackPath
    """Where the answers are."""

    docs: int = Field(ge=1)
    """Number of docs with an answer."""

    docs_with_other_prompt: int = Field(ge=0)
    """Number of these that had another prompt than the pack's."""

    other_settings: str = ""
    """Settings of generation that differ from the recorded ones of the pack, a clause; empty for none."""


class KnownGapEntry(_Entry):
    """A known, harmless reason why a score may differ from the published score."""

    text: str
    """A sentence."""

    source: str | None = None
    """Where it is from; None if the sentence says it."""

    backends: tuple[str, ...] = ()
    """The backends to which it applies; empty for all."""

    recorded: bool = False
    """Whether it also applies to the recorded answers, because it lies in the graders or in the published score."""


class SharedTextEntry(_Entry):
    """A field of a record whose texts many docs share, and which makes no clusters."""

    field: str
    """Its name."""

    texts: int = Field(ge=1)
    """Number of distinct texts."""

    docs: int = Field(ge=1)
    """Number of docs that have one."""


class TaskEntry(_Entry):
    """One prepared task; ``docs_file`` is None when its rows stay on the hub (``bundle: false``).

    ``choice_scoring`` is how a choice task is scored, else None. ``likelihood_reason`` says why requested next-token
    scoring was not possible. ``dataset_config`` is the configuration of the dataset on the hub, ``subset`` Meta's
    name of the benchmark in it. ``filters`` to ``unsafe_code`` are for verify: see `meta_eval.pack.templates.TaskSpec`.
    ``record`` is None for Meta's evals datasets, and for rows in their columns: those name no ``model``. ``asked_as``
    says whether prompts are texts or chat messages, ``answer`` whether a text or a whole chat message is graded.
    ``trust`` says how far its verdicts are proven, None where the recorded run's own grader gives them. The docs of an
    ``invented`` task are no benchmark. ``generation`` holds the recorded settings of generation, None where the
    template has them. ``cluster_field`` is the field of the record whose texts make its clusters, unless the user
    named one.
    """

    template: PackPath
    model: str | None
    family: str | None
    variant: str | None
    dataset_id: str
    dataset_revision: str
    dataset_config: str
    subset: str
    output_type: str
    choice_scoring: Literal["likelihood", "next_token"] | None = None
    likelihood_reason: str | None = None
    rows: int = Field(ge=0)
    docs: int = Field(ge=0)
    docs_file: PackPath | None
    columns: tuple[str, ...]
    join: JoinEntry | None
    warnings: dict[str, int]
    recorded_settings: dict[str, tuple[str, ...]]
    longest_prompt: LengthEntry
    reference_scores: tuple[ReferenceScoreEntry, ...]
    row_format: str
    filters: tuple[str, ...]
    primary_metric: str = Field(pattern=r"^[^,]+,[^,]+$")
    recorded_metric: str | None
    is_correct_metric: str | None = None
    graded_by: Literal["program", "judge"]
    min_agreement: float = Field(ge=0, le=1, allow_inf_nan=False)
    unsafe_code: bool
    record: RecordEntry | None = None
    asked_as: Literal["text", "chat"] = "text"
    answer: Literal["text", "message"] = "text"
    known_gaps: tuple[KnownGapEntry, ...] = ()
    trust: Trust | None = None
    invented: bool = False
    baseline: tuple[BaselineEntry, ...] = ()
    generation: dict[str, Any] | None = None
    cluster_field: str | None = None
    uncounted_texts: tuple[SharedTextEntry, ...] = ()

    @property
    def needs_bos(self) -> bool:
        """Whether the model's tokenizer must add a BOS to its prompts. Those of a family with a BOS rely on it, as do
        prompts of a record from which a BOS was removed. Rows that name no model may be of a model without one."""
        return "prompt_with_bos" in self.warnings or (
            self.record is None and self.model is not None and find_family(self.model).bos is not None
        )

    @property
    def shown_scores(self) -> tuple[ReferenceScoreEntry, ...]:
        """The scores that stand beside those of a run. No published number is one of invented docs."""
        return () if self.invented else self.reference_scores

    @property
    def has_recorded_answers(self) -> bool:
        """Whether anybody has answered the docs. lm-eval's own task, frozen with a number of shots, has no model."""
        is_recorded = self.record is None or self.record.model is not None or self.record.shots is None
        return bool(self.baseline) or is_recorded

    @property
    def baseline_owner(self) -> str:
        """The owner of the recorded answers of the baseline: ``Meta's``, ``the record's``, ``the baseline's``."""
        if self.baseline:
            return "the baseline's"
        return "Meta's" if self.record is None and self.model is not None else "the record's"

    @property
    def baseline_owner_recorded(self) -> str:
        """The owner as it reads before *answers* or *verdicts*: ``Meta's recorded`` or ``the record's``."""
        return "Meta's recorded" if self.baseline_owner == "Meta's" else self.baseline_owner


_Version = Annotated[str, Field(pattern=r"^\d+(\.\d+)*((a|b|rc)\d+)?$", max_length=40)]


class VersionRange(_Entry):
    minimum: _Version
    below: _Version


def _split_commas(value: object) -> object:
    """Accept comma-separated text or a YAML list. Empty items are dropped."""
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    return tuple(value) if isinstance(value, list) else value


def _list_places(value: object) -> object:
    """A single place as a list of it; None as an empty list."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    return tuple(value) if isinstance(value, list) else value


class PreparedFrom(BaseModel):
    """The keys of the configuration that say what a pack is made of, as the user wrote them.

    The data that prepare read is in the tasks and originals. In a manifest the keys of plug-ins follow, as JSON.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    evals_dataset: Name = Field(
        description="the record that the pack is made from, such as a results folder of lm_eval ([all "
        "sources](../guides/baseline.md#sources)). `lm-eval` takes the tasks of the installed lm-eval"
    )
    evals_revision: str | None = Field(
        None,
        description="commit or branch of the evals dataset on the hub; null for the newest. The manifest "
        "records the commit",
    )
    evals_run: str | None = Field(
        None,
        description="time of the run to use, or its beginning, if the evals dataset holds several; null if it "
        "holds one",
    )
    baseline: Annotated[tuple[Name, ...], BeforeValidator(_list_places)] = Field(
        (),
        description="an earlier run to compare with "
        "([how](../guides/baseline.md#add-a-baseline-to-another-pack)): a results folder or file, "
        "or another record; a list, or a pattern such as `runs/base_*`, for several runs of one model; null for the "
        "record of the evals dataset",
    )
    tasks: Annotated[tuple[Name, ...], BeforeValidator(_split_commas)] = Field(
        min_length=1,
        description="tasks, groups, patterns: `mmlu_*`. A minus leaves out: `mmlu,-mmlu_law`",
    )
    template_dir: Name = Field(
        "./meta_template",
        description="the task templates; the shipped ones if there is no such folder, and for tasks that a folder of "
        "your own lacks",
    )
    apply_chat_template: bool = Field(
        False,
        description="with `evals_dataset: lm-eval`, render prompts with the model's chat template, as "
        "lm_eval's flag does; recorded prompts stay as they are, and backend chat always asks messages",
    )
    fewshot_as_multiturn: bool = Field(
        True,
        description="under a chat template, and with backend chat, make each example a turn; false puts all into "
        "one turn",
    )
    system_instruction: str | None = Field(
        None, description="with `evals_dataset: lm-eval`, the system message before each prompt, as lm_eval's option"
    )
    bundle: bool = Field(
        True,
        description="write every doc into the pack, so that the GPU machine needs no hub and no token; "
        "`false` leaves tasks without a join on the hub, and their docs without `cluster`",
    )
    choice_scoring: Literal["likelihood", "next_token"] = Field(
        "likelihood",
        description="how the printed command asks multiple choice: `likelihood`, one prompt per choice; "
        "`next_token`, one prompt and one token per doc [where that is "
        "equivalent](../guides/engines.md#how-multiple-choice-is-asked)",
    )
    allow_code: bool = Field(
        False,
        description="prepare tasks whose scoring runs generated programs (human_eval, mbpp), in a "
        "[sandbox](../method/grading.md#tasks-that-run-generated-code)",
    )
    cluster: dict[Name, Name] = Field(
        {},
        description="per task, or per pattern such as `mmlu_*`, the field of its docs whose equal values mark "
        "[docs that are not independent](../method/uncertainty.md#clusters); for results folders "
        "and `evals_dataset: lm-eval`",
    )


class Manifest(_Entry, Public):
    """Describes the whole pack. It has no time and no host, so the same input gives the same bytes.

    ``run_settings`` holds the settings of the run, ``command`` the same as a command that works without meta-eval.
    ``sources`` holds the local files that it was made of, by path as the user wrote it; of one larger than 64 MiB the
    size alone. ``left_out`` holds requested tasks that could not be prepared, each with its reason. ``includes_punkt``
    says whether it brings nltk's Punkt model; None where no task needs it.
    """

    schema_version: int
    meta_eval: str
    lm_eval: VersionRange
    prepared_from: PreparedFrom
    run_settings: RunSettings
    originals: dict[str, OriginalEntry]
    sources: dict[str, FileEntry] = {}
    tasks: dict[TaskName, TaskEntry] = Field(min_length=1)
    groups: dict[TaskName, tuple[TaskName, ...]]
    left_out: dict[TaskName, str] = {}
    command: tuple[str, ...]
    includes_punkt: bool | None = None
    files: dict[PackPath, FileEntry]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        """Check that everything the manifest refers to is in it."""
        for name, entry in self.tasks.items():
            if entry.docs_file is not None and entry.docs_file not in self.files:
                raise ValueError(f"tasks.{name}.docs_file: {entry.docs_file!r:.80} is not in files")
            for baseline in entry.baseline:
                if baseline.file not in self.files:
                    raise ValueError(f"tasks.{name}.baseline.file: {baseline.file!r:.80} is not in files")
        for group, members in self.groups.items():
            if unknown := [member for member in members if member not in self.tasks]:
                raise ValueError(f"groups.{group}: there is no task {unknown[0]!r}")
        if args := self.run_settings.model_args:
            with suppress(UnknownBackendError):
                find_backend(self.run_settings.backend).check_args(args)
        return self

    @classmethod
    def refusal(cls, error: ValidationError) -> PackError:
        fault = super().refusal(error)
        return PackError(fault.what, where=fault.where)

    @property
    def needs_bos(self) -> bool:
        """Whether the model's tokenizer must add a BOS to the prompts of a task."""
        return any(entry.needs_bos for entry in self.tasks.values())

    @property
    def backend(self) -> Backend:
        """The backend that ``run_settings`` names.

        Raises:
            PackError: This version of meta-eval does not know it.
        """
        try:
            return find_backend(self.run_settings.backend)
        except UnknownBackendError as error:
            raise PackError(f"the pack needs a backend that is not available: {error}") from None

    @property
    def no_command(self) -> str:
        """Why there is no ``lm_eval`` command for this pack, where ``command`` is empty."""
        why = explain_no_command(self.backend, list(self.tasks.values()))
        return why or f"lm_eval cannot ask backend {self.run_settings.backend}: {self.backend.no_command}"

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"


def explain_no_command(backend: Backend, tasks: Sequence[TaskEntry]) -> str | None:
    """Why no ``lm_eval`` command of a backend asks all tasks alike; None if one does."""
    words = {"text": "texts", "chat": "chat messages"}
    for asked_as in sorted({entry.asked_as for entry in tasks} - backend.commanded_as):
        count = sum(entry.asked_as == asked_as for entry in tasks)
        which = f"{count} of {len(tasks)} tasks ask {words[asked_as]}"
        if asked_as not in backend.kinds | {"text"}:
            return f"{which}, and backend {backend.name} is asked with texts{suggest_backend(asked_as)}"
        return f"there is no lm_eval command: {which}, and only meta-eval asks them with backend {backend.name}"
    if messages := sum(entry.answer == "message" for entry in tasks):
        return f"lm_eval keeps only the text of an answer, and {messages} of {len(tasks)} tasks grade its tool calls"
    return None


def read_manifest(pack: Path) -> Manifest:
    """Read the manifest of a pack. First finish the move of complete files that a killed prepare left.

    Raises:
        OutputError: Another prepare keeps writing the pack.
        PackError: There is no manifest, or this version of meta-eval cannot read it.
    """
    path = pack / MANIFEST
    hint = "Run `meta-eval prepare` to make a pack"
    finish_folder(pack)
    if not os.path.lexists(path):
        what = "is not a pack: it has no manifest.json"
        if not os.path.lexists(pack) or not pack.exists():
            what = f"there is no such folder{suggest_path(pack)}"
        elif not pack.is_dir():
            what = "is a file, and a pack is a folder such as work_dir"
            if pack.suffix in (".yaml", ".yml"):
                hint = f"Name a configuration with --config {shlex.quote(str(pack))}"
        raise PackError(what, where=str(pack), hint=hint)
    try:
        text = read_text(path, limit=_MAX_BYTES)
        tree = json.loads(text)
    except InputError as error:
        raise PackError(error.what, where=str(path), hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise PackError(f"is not JSON: {describe_error(error)}", where=str(path), hint=hint) from None
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise PackError(
            f"has schema version {quoted(version)}, and this meta-eval reads {SCHEMA_VERSION}",
            where=str(path),
            hint=hint,
        )
    try:
        return Manifest.model_validate_json(text, strict=True)
    except PackError as error:
        raise PackError(error.what, where=str(path), hint=hint) from None
