"""Writes requests as a batch file of a chat endpoint, and reads which request a result answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meta_eval.plugins.chat.batch_files import BatchRequest, format_batch_request
from meta_eval.plugins.chat.chat_backend import CONTINUED, parse_fields
from meta_eval.plugins.chat.chat_body import make_chat_body
from meta_eval.sockets import (
    SHORT,
    ConfigError,
    Evaluator,
    Manifest,
    PackError,
    Request,
    build_requests,
    find_kind,
    format_json,
    log,
    read_conversation,
)

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
    if not find_kind(request.kind).answered_by_text:
        raise ValueError("it asks how likely given texts are, which chat endpoints do not say")
    try:
        return read_conversation(request, can_continue=bool(_fields(manifest).get(CONTINUED)))
    except ValueError as error:
        raise ValueError(f"the prompt {error}") from None


def _fields(manifest: Manifest) -> Mapping[str, Any]:
    """Further fields of the body: the model_args of a chat endpoint. Those of other backends are not for it."""
    settings = manifest.run_settings
    return parse_fields(settings.model_args) if settings.model_args and manifest.backend.args_in_body else {}
