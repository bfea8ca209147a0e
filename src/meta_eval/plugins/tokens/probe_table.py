"""The table of probes: log-probabilities of some answers after a changed prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from meta_eval.judge.token_table import (
    PROBES,
    ROWS_AT_ONCE,
    Floats,
    Header,
    Ints,
    TableSchema,
    check_logprobs,
    make_damage_error,
    path_beside,
    read_batches,
    read_header,
    write_table,
)
from meta_eval.sockets import locating

# Results by task, doc and probe.
Probes = Mapping[tuple[str, int, str], "Probed"]


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """A doc of n tokens after a changed prompt."""

    task: str
    """The task of the pack."""

    doc: int
    """lm-eval's number of the doc."""

    probe: str
    """The change, a name of `meta_eval.plugins.tokens.perturbations`."""

    request_sha256: str
    """The hash of the request."""

    prompt_tokens: int
    """Tokens of the doc's own prompt, with BOS."""

    token_ids: Ints
    """n: the forced tokens."""

    logprobs: Floats
    """n, nats."""

    top_logprobs: Floats
    """n: log-probabilities of the likeliest tokens at their places, nats."""


_SCHEMA: TableSchema = {
    "task": "string", "doc": "int64", "probe": "string", "request_sha256": "string", "prompt_tokens": "int32",
    "token_ids": "int32*", "logprobs": "float32*", "top_logprobs": "float32*",
}  # fmt: skip


def find_probes_path(path: Path) -> Path:
    """The path of a table's probes, next to the table."""
    return path_beside(path, PROBES)


def write_probes(path: Path, header: Header, some: Iterable[Probed]) -> Header:
    """Write a table of probes, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    rows = ({name: getattr(probe, name) for name in _SCHEMA} for probe in some)
    return write_table(path, header, _SCHEMA, rows, "token_ids")


def read_probes(table: Path) -> Probes:
    """Read the probes of a table of answers; empty if there are none.

    Raises:
        TokensError: They are damaged.
    """
    path = find_probes_path(table)
    if not path.exists():
        return {}
    read_header(path, _SCHEMA)
    probes = {}
    for row in chain.from_iterable(read_batches(path, _SCHEMA, ROWS_AT_ONCE)):
        probe = Probed(**row)
        with locating(f"{path}, {probe.task}/{probe.doc}"):
            if not len(probe.token_ids) == len(probe.logprobs) == len(probe.top_logprobs) > 0:
                raise make_damage_error("its columns have not one number a token")
            check_logprobs(probe.logprobs, probe.top_logprobs)
        probes[probe.task, probe.doc, probe.probe] = probe
    return probes
