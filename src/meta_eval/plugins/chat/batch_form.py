"""The form of batch files: ``export --to batch`` writes them, and `grade` reads the results of any service.

A custom_id that `export` wrote names the request. Other results are bound to requests of a pack by what was asked: a
file of requests beside them says what each custom_id asked. A request of the pack is the same if `export` would write
the same body. The name of the model and the seed may differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.ask.request import read_conversation
from meta_eval.ask.request_kinds import build_requests, find_request_kind
from meta_eval.base.inputs import format_json
from meta_eval.base.thresholds import MAX_GEN_TOKS
from meta_eval.harness.answer import AnswersError, make_chat_answer
from meta_eval.harness.evaluator import Evaluator
from meta_eval.plugins.chat.batch_files import BatchRequest, find_kind, format_batch_request, read_batch_result
from meta_eval.plugins.chat.batch_pairs import read_requests
from meta_eval.plugins.chat.chat_backend import CONTINUED, parse_fields
from meta_eval.plugins.chat.chat_body import make_chat_body
from meta_eval.plugins.chat.chat_docs import split_bodies
from meta_eval.sockets import SHORT, Answer, AnswerForm, ConfigError, Export, Holding, Manifest, PackError, Request, log

# Some services take at most 64 characters.
_CUSTOM_ID = re.compile(rf"(?P<id>.+)-(?P<sha256>[0-9a-f]{{{SHORT}}})", re.DOTALL)

_HINT = "Use `meta-eval run`, or --to requests"

# Lines that services take in one file.
_MOST_LINES = 50_000


def make_custom_id(request: Request) -> str:
    """The id of a request with the start of its SHA-256, so that its result cannot be used for another request."""
    return f"{request.id}-{request.sha256[:SHORT]}"


def split_custom_id(custom_id: str) -> tuple[str, str | None]:
    """The id of a request, and the start of its SHA-256; None if a custom_id is not of `make_custom_id`."""
    match = _CUSTOM_ID.fullmatch(custom_id)
    return (match["id"], match["sha256"]) if match else (custom_id, None)


def check_batch_tasks(evaluator: Evaluator, tasks: Sequence[str], manifest: Manifest) -> None:
    """Check that a chat endpoint can answer the requests of some tasks.

    Raises:
        ConfigError: It cannot; the message names the tasks that it can.
    """
    refused: dict[str, list[str]] = {}
    for name in tasks:
        if reason := _find_refusal(next(build_requests(evaluator, name, None, [0])), manifest):
            refused.setdefault(reason, []).append(name)
    unfit = {name for names in refused.values() for name in names}
    if refused:
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refused.items())
        fit = [name for name in tasks if name not in unfit]
        hint = f"Name the tasks that can: --tasks {','.join(fit)}" if fit else _HINT
        raise ConfigError(f"cannot be asked as chat: {reasons}", where="--to batch", hint=hint)


def format_batch_lines(requests: Iterator[Request], manifest: Manifest) -> Iterator[str]:
    """Yield the lines of a batch file, and warn of more than services take.

    Raises:
        PackError: A prompt cannot be asked as chat messages.
    """
    settings, lines = manifest.run_settings, 0
    for lines, request in enumerate(requests, 1):  # noqa: B007 (their number)
        try:
            conversation = _read(request, manifest)
        except ValueError as error:
            raise PackError(f"{error}", where=f"--to batch: {request.id}", hint=_HINT) from None
        body = make_chat_body(
            request, conversation, model=settings.model_name, seed=settings.seed, fields=_fields(manifest)
        )
        yield format_json(format_batch_request(BatchRequest(make_custom_id(request), body))) + "\n"
    if lines > _MOST_LINES:
        log.warning(
            f"the file has {lines:,} lines, and most services take at most {_MOST_LINES:,}: split it, for example with "
            f"`split -l {_MOST_LINES}`; `meta-eval grade` reads several files of results"
        )


def _find_refusal(request: Request, manifest: Manifest) -> str | None:
    """Why a chat endpoint cannot answer a request; None if it can."""
    try:
        _read(request, manifest)
    except ValueError as error:
        return str(error)
    return None


def _read(request: Request, manifest: Manifest) -> dict[str, Any]:
    if not find_request_kind(request.kind).answered_by_text:
        raise ValueError("it asks how likely given texts are, which chat endpoints do not say")
    try:
        return read_conversation(request, can_continue=bool(_fields(manifest).get(CONTINUED)))
    except ValueError as error:
        raise ValueError(f"the prompt {error}") from None


def _fields(manifest: Manifest) -> Mapping[str, Any]:
    """Further fields of the body: the model_args of a chat endpoint. Those of other backends are not for it."""
    settings = manifest.run_settings
    return parse_fields(settings.model_args) if settings.model_args and manifest.backend.args_in_body else {}


def bind_custom_ids(files: Sequence[Path], requests: Iterable[Request]) -> dict[str, str | None]:
    """Find the requests of a pack that files of requests ask.

    Args:
        files: Files of requests that `export` did not write.
        requests: The requests of the pack.

    Returns:
        By custom_id in the files: the custom_id that `export` gives the same request; None if the pack has none.

    Raises:
        AnswersError: The pack has none of the requests of a file, or two files have a custom_id in common.
        DataError: A file is malformed.
    """
    own: dict[str, list[str]] = {}
    for request in requests:
        if (key := _make_key(request)) is not None:
            own.setdefault(key, []).append(make_custom_id(request))
    names: dict[str, str | None] = {}
    for file in files:
        found = {custom_id: _take(own.get(key, [])) for custom_id, key in _read_keys(file).items()}
        if shared := names.keys() & found.keys():
            raise AnswersError(
                f"has the custom_id {min(shared)!r:.80} of another file", where=str(file), hint="Grade one at a time"
            )
        unknown = [custom_id for custom_id, name in found.items() if name is None]
        if len(unknown) == len(found):
            raise AnswersError(
                f"none of its {len(found):,} requests is of this pack: other messages, tools or settings",
                where=str(file),
                hint="Name the pack of these requests with --pack",
            )
        if unknown:
            log.warning(f"{file}: {len(unknown):,} of {len(found):,} requests are not of this pack: {unknown[0]:.80}")
        names |= found
    return names


def _take(names: list[str]) -> str | None:
    """The next of several equal requests."""
    return None if not names else names.pop(0) if len(names) > 1 else names[0]


def _read_keys(file: Path) -> dict[str, str]:
    """What each request of a file asks."""
    requests = read_requests(file)
    docs, generation = split_bodies([request.body for request in requests.values()])
    settings = {"max_gen_toks": MAX_GEN_TOKS, **generation}
    stop, limit = tuple(settings.pop("until")), settings.pop("max_gen_toks")
    keys = {}
    for custom_id, doc in zip(requests, docs, strict=True):
        request = Request(custom_id, "", 0, 0, "chat", format_json(doc), stop, limit, settings)
        keys[custom_id] = _make_key(request) or ""
    return keys


def _make_key(request: Request) -> str | None:
    """What a request asks, with numbers as JSON sees them; None if it cannot be asked as chat."""
    if not find_request_kind(request.kind).answered_by_text:
        return None
    try:
        body = make_chat_body(request, read_conversation(request, can_continue=True), model="", seed=0)
    except ValueError:
        return None
    return json.dumps(_normalise({name: value for name, value in body.items() if name != "seed"}), sort_keys=True)


def _normalise(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _normalise(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_normalise(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value


class BatchForm(AnswerForm):
    """OpenAI's batch files of chat completions."""

    name = "batch"
    mark = re.compile(rf'\A\{{"custom_id": "{_CUSTOM_ID.pattern}", "method": "POST"')

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
