"""The form of batch files: ``export --to batch`` writes them, and `grade` reads the results of any service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.plugins.chat.batch_binding import bind_custom_ids
from meta_eval.plugins.chat.batch_files import find_kind, read_batch_result
from meta_eval.plugins.chat.batch_requests import check_batch_tasks, format_batch_lines, split_custom_id
from meta_eval.sockets import Answer, AnswerForm, ConfigError, Export, Holding, Request, make_chat_answer


class BatchForm(AnswerForm):
    """OpenAI's batch files of chat completions."""

    name = "batch"

    def find_kind(self, line: object) -> Holding | None:
        return find_kind(line)

    def check_export(self, export: Export) -> None:
        if export.force:
            raise ConfigError("--to batch does not take it", where="--force", hint="Leave it out, or use --to requests")
        check_batch_tasks(export.evaluator, export.tasks, export.manifest)

    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        return format_batch_lines(requests, export.manifest)

    def read_answer(self, line: Any, names: Mapping[str, str | None], where: str) -> Answer | None:
        result = read_batch_result(line)
        custom_id = names.get(result.custom_id, result.custom_id)
        if custom_id is None:
            return None
        own_id, sha256 = split_custom_id(custom_id)
        return make_chat_answer(
            own_id, sha256, result.completion, engine="batch", where=where, error=result.error
        )  # fmt: skip

    def bind(self, files: Sequence[Path], requests: Iterable[Request]) -> dict[str, str | None]:
        return bind_custom_ids(files, requests)
