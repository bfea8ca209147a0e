"""Output of lm-eval as a format of records: what says that a place holds a run. `lm_eval_record` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from meta_eval.base.inputs import is_pointer
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.output_index import TaskOutput, index_outputs, parse_file_name
from meta_eval.pack.records.format import ALMOST_SURE, Place, Record, RecordFormat

if TYPE_CHECKING:
    from meta_eval.pack.hub import Repository


class LmEvalFormat(RecordFormat):
    """Output of ``lm_eval --log_samples``, or results with samples as `simple_evaluate` returns them."""

    name = "lm-eval"
    reads = "`lm_eval --log_samples` output"
    settings: ClassVar[Mapping[str, str]] = {
        "shots": "n-shot.TASK", "fewshot_as_multiturn": "fewshot_as_multiturn", "chat template": "chat_template",
        "system instruction": "system_instruction", "generation_kwargs": "configs.TASK.generation_kwargs",
        "gen_kwargs": "config.gen_kwargs",
    }  # fmt: skip
    grader_settings: ClassVar[Mapping[str, str]] = {
        "task version": "versions.TASK", "lm-eval": "lm_eval_version", "metric": "configs.TASK.metric_list",
        "filter": "configs.TASK.filter_list", "process_results": "configs.TASK.process_results",
    }  # fmt: skip

    def detect(self, place: Place) -> float:
        # Folders of other formats, such as details, also hold results of lm-eval's form.
        if place.repository is not None:
            return ALMOST_SURE if holds_samples(place.repository) else 0
        return ALMOST_SURE if place.path is not None and holds_record(place.path) else 0

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        from meta_eval.pack.records.lm_eval_record import LmEvalRecord, find_hub_run, find_local_run

        if place.repository is not None:
            return LmEvalRecord(find_hub_run(place.repository, run, names))
        assert place.path is not None  # noqa: S101 (a place is here or on the hub)
        return LmEvalRecord(find_local_run(place.name, place.path, run, names))


def holds_samples(repository: Repository) -> bool:
    """Whether a dataset holds samples of ``lm_eval --log_samples``."""
    return any(_task(name) for name in repository.names)


def _task(name: str) -> str | None:
    parsed = parse_file_name(PurePosixPath(name).name)
    return parsed[0] if parsed else None


def holds_record(path: Path) -> bool:
    """Whether a folder or file holds samples that lm-eval wrote, or its results.

    The content decides, not the name of a file or folder.
    """
    if not path.exists() or (path.is_file() and path.suffix not in (".json", ".jsonl")):
        return False
    try:
        files = index_outputs([path], skip_damaged=True)
    except ResultsError:
        return False
    runs = [run for runs in files.tasks.values() for run in runs]
    return bool(files.results or files.damaged) or any(has_samples(run) or _is_pointer(run) for run in runs)


def has_samples(run: TaskOutput) -> bool:
    """Whether the samples file of a run begins with a sample of lm-eval."""
    from meta_eval.harness.sample_files import read_raw_samples
    from meta_eval.harness.sample_parser import parse_sample

    try:
        for piece in read_raw_samples(run.samples, run.offset) if run.samples else ():
            return {"doc_id", "doc", "resps", "arguments"} <= set(parse_sample(piece.content, cut=False))
    except ResultsError:
        pass
    return False


def should_have_samples(run: TaskOutput) -> bool:
    """Whether a samples file that does not begin with a sample is a damaged one: something else says that it is one."""
    return run.samples is not None and (run.results is not None or run.damage is not None or _is_pointer(run))


def _is_pointer(run: TaskOutput) -> bool:
    try:
        return run.samples is not None and is_pointer(run.samples)
    except OSError:
        return False
