"""Output of lm-eval as a format of records: what says that a place holds a run. `lm_eval_record` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.output_index import index_outputs, parse_file_name
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
    if files.results or files.damaged:
        return True
    from meta_eval.harness.lm_eval_run import has_samples, should_have_samples

    return any(has_samples(run) or should_have_samples(run) for run in runs)
