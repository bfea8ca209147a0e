"""Makes the tasks of a pack of lm-eval's own tasks, without answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from meta_eval.base.errors import ConfigError, locating
from meta_eval.base.logs import report_progress
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.records.chat_template import Chat, read_chat_template
from meta_eval.pack.records.lm_eval_tasks import LM_EVAL, find_lm_eval_tasks, hash_requests, read_lm_eval_task
from meta_eval.pack.records.next_token_choices import add_next_token_choices
from meta_eval.pack.records.pack_task import choose_first_metric, list_filters, make_task
from meta_eval.pack.records.task_code import TaskCode, find_allowed_code
from meta_eval.pack.records.task_source import CandidateTask, TaskSource


class LmEvalSource(TaskSource):
    """The tasks of the installed lm-eval, and the user's own.

    Raises:
        ConfigError: A key of the configuration does not fit them.
    """

    def __init__(self, config: Config, config_place: ValuePlace) -> None:
        if not config.bundle:
            raise ConfigError(
                "docs of lm-eval's tasks must be in the pack",
                where=config_place.name_key("bundle"),
                hint="Set bundle: true",
            )
        self._config, self._config_place = config, config_place
        self._template_dir = Path(config.template_dir)
        self._shots: dict[str, int | None] = {}
        self._chat: Chat | None = None

    def choose(self, names: Sequence[str]) -> tuple[list[str], Mapping[str, tuple[str, ...]]]:
        self._shots, groups = find_lm_eval_tasks(names, self._template_dir)
        with locating(self._config_place.name_key("apply_chat_template")):
            self._chat = read_chat_template(self._config)
        return list(self._shots), groups

    def prepare(self, task: str, context: PrepareContext) -> CandidateTask:
        code = find_allowed_code(task, self._template_dir, allow_code=self._config.allow_code)
        return _make_lm_eval_task(code, self._shots[task], context, self._chat)


def _make_lm_eval_task(code: TaskCode, shots: int | None, context: PrepareContext, chat: Chat | None) -> CandidateTask:
    report_progress(f"{code.name}: asking lm-eval for its docs")
    rows, shots = read_lm_eval_task(code, shots, chat, context.config.system_instruction)
    entry = RecordEntry(
        model=None, time=None, results_file=None, lm_eval=None, backend=None, bos_text=chat.bos if chat else None,
        chat_template=chat is not None and chat.asked_as == "text", shots=str(shots), task_version=code.version,
        grader_source=code.source_label, grader_version=code.version,
    )  # fmt: skip
    revision = hash_requests(rows)

    def make(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, rows, entry, context, dataset_id=LM_EVAL, revision=revision, primary_metric=choose_first_metric(code),
            filters=list_filters(code), published=(), delimiter=delimiter,
        )  # fmt: skip

    def postprocess(task: PreparedTask) -> PreparedTask:
        return add_next_token_choices(task, rows, code, context)

    return CandidateTask(make(None), rows, f"{LM_EVAL}, {code.name}", make, postprocess)
