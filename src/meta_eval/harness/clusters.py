"""Finds docs of a task that are not independent. Every interval and test treats such a cluster as a unit.

Docs are in the same cluster if they have the same content (copies of a problem), the same request and right answer, or
the same value in a field that the user names or in a pack's column ``cluster``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from meta_eval.base.errors import ConfigError, suggest_name
from meta_eval.base.hashing import hash_bytes
from meta_eval.base.pack_names import join_names

# Prefix of a given id. It sorts before every hash, so a cluster keeps it as its name.
_GIVEN = "!"

# Maximum number of fields in a message.
_LISTED = 20

Fields = Mapping[str, str]


def list_content_parts(
    question_hash: str, prompt_hashes: Sequence[str], gold: str, requests: Sequence[Sequence[Any]]
) -> list[tuple[str, ...]]:
    """What the keys of a doc's problem are hashes of. Docs of a task with a common key are the same problem; as long as
    no two have the same parts, no key is needed.

    Args:
        question_hash: The hash of the question or the whole doc; empty if unknown.
        prompt_hashes: The hashes of the model's input.
        gold: The right answer as the task writes it.
        requests: Prompt, and settings or continuation, of each request.
    """
    parts: list[tuple[str, ...]] = [(question_hash, gold)] if question_hash else []
    # A single text with its settings has nothing else.
    is_plain = len(requests) == 1 and len(requests[0]) == 2 and isinstance(requests[0][1], dict)
    others = [] if is_plain else [part for request in requests for part in _beyond(request, requests[0])]
    if others or (requests[0][0] if is_plain else any(request[0] for request in requests)):
        parts.append((*prompt_hashes, *others, gold))
    return parts


def make_given_key(cluster: str) -> str:
    """Make the key of docs whose cluster a pack or the user gives."""
    return f"{_GIVEN}{cluster}"


def name_clusters(keys: Sequence[Sequence[str]]) -> list[str | None]:
    """Name the cluster of each doc by its least key; None for a doc that shares no key.

    The relation is transitive: docs that share keys with the same third doc are in the same cluster.
    """
    if not share_any(keys):
        return [None] * len(keys)
    parents: dict[str, str] = {}
    for doc_keys in keys:
        roots = sorted({_root(parents, key) for key in doc_keys})
        parents.update((root, roots[0]) for root in roots)
    clusters = [_root(parents, doc_keys[0]) if doc_keys else None for doc_keys in keys]
    counts = Counter(clusters)
    return [None if root is None or counts[root] < 2 else root.removeprefix(_GIVEN) for root in clusters]


def share_any(keys: Iterable[Sequence[Hashable]]) -> bool:
    """Whether any key is there twice. In most tasks none is."""
    every = [key for doc_keys in keys for key in doc_keys]
    return len(set(every)) < len(every)


def find_field(fields: Fields, task: str) -> str | None:
    """Find the field for a task, by name or by the first matching pattern (``mmlu_*``)."""
    if task in fields:
        return fields[task]
    return next((field for pattern, field in fields.items() if fnmatchcase(task, pattern)), None)


def check_fields(fields: Fields, tasks: Sequence[str], where: str = "--cluster") -> None:
    """Refuse fields for unknown tasks. ``where`` is their place, for messages.

    Raises:
        ConfigError: A task is unknown.
    """
    for pattern in fields:
        if not any(fnmatchcase(task, pattern) or task == pattern for task in tasks):
            raise ConfigError(
                f"unknown task {pattern!r}{suggest_name(pattern, tasks)}", where=where,
                hint=f"Tasks: {join_names(sorted(tasks), 12)}",
            )  # fmt: skip


def read_fields(assignments: Sequence[str]) -> dict[str, str]:
    """Parse ``TASK=FIELD`` entries to a mapping.

    Raises:
        ConfigError: An entry has another form, or a task is repeated.
    """
    fields: dict[str, str] = {}
    where = "--cluster"
    for text in assignments:
        task, _, field = text.partition("=")
        if not task or not field:
            raise ConfigError(f"{text!r} is not of the form TASK=FIELD", where=where, hint="Such as drop=section_id")
        if task in fields:
            raise ConfigError(f"{task} is named twice", where=where)
        fields[task] = field
    return fields


def read_field(doc: Mapping[str, Any], field: str) -> str | None:
    """Read a doc's field as the name of a cluster; None if it is missing or null.

    Args:
        doc: The doc.
        field: Its name, or that of a field in another one or in a list: ``context.text``, ``messages.0.content``.
    """
    value = doc.get(field) if field in doc or "." not in field else _find(doc, field)
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _find(value: Any, path: str) -> Any:
    if isinstance(value, Mapping) and path in value:
        return value[path]
    name, _, rest = path.partition(".")
    if isinstance(value, list):
        part = value[int(name)] if name.isdecimal() and int(name) < len(value) else None
    else:
        part = value.get(name) if isinstance(value, Mapping) and rest else None
    return _find(part, rest) if rest else part


def make_missing_field_error(field: str, columns: Sequence[str], where: str) -> ConfigError:
    """The error of a field that no doc of a task has."""
    listed = ", ".join(columns[:_LISTED])
    what = f"the cluster field {field!r} holds nothing in any doc"
    return ConfigError(
        what if field in columns else f"no doc has the cluster field {field!r}{suggest_name(field, columns)}",
        where=where,
        hint=f"Fields: {listed}" if listed else "These docs have no fields",
    )


def _root(parents: dict[str, str], key: str) -> str:
    while (parent := parents.setdefault(key, key)) != key:
        parents[key] = key = parents[parent]
    return key


def _beyond(request: Sequence[Any], first: Sequence[Any]) -> list[str]:
    """The parts of a request that differ from the first prompt: a continuation, another prompt, an image."""
    parts = [part for part in request[1:2] if isinstance(part, str)]
    parts += [json.dumps(part, sort_keys=True, default=str) for part in request[2:]]
    return parts if request[0] == first[0] else [str(request[0]), *parts]


def hash_parts(*parts: str) -> str:
    """Make a key of what it is the hash of."""
    texts = [part.encode("utf-8", "surrogatepass") for part in parts]
    return hash_bytes(b"".join([b"%d:%b" % (len(text), text) for text in texts]))[:32]
