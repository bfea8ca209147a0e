"""Binds results of batch files that `export` did not write to the requests of a pack, by what was asked.

A file of requests beside the results says what each custom_id asked. A request of the pack is the same if `export`
would write the same body. The name of the model and the seed may differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.plugins.chat.batch_pairs import read_requests
from meta_eval.plugins.chat.batch_requests import make_custom_id
from meta_eval.plugins.chat.chat_body import make_chat_body
from meta_eval.plugins.chat.chat_docs import split_bodies
from meta_eval.sockets import (
    MAX_GEN_TOKS,
    AnswersError,
    Request,
    find_kind,
    format_json,
    log,
    read_conversation,
)


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
    if not find_kind(request.kind).answered_by_text:
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
