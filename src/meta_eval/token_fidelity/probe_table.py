"""The table of probes, beside that of the answers: what a copy finds of some of them behind a changed prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from meta_eval.messages.errors import locating
from meta_eval.token_fidelity.table_file import (
    BATCH,
    PROBES,
    Header,
    Schema,
    damage_error,
    path_beside,
    read_batches,
    read_header,
    write_table,
)
from meta_eval.token_fidelity.token_table import Floats, Ints

# By task, doc and probe what was found.
Probes = Mapping[tuple[str, int, str], "Probed"]


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """A doc behind a changed prompt, of n tokens.

    Attributes:
        task: The task of the pack.
        doc: lm-eval's number of the doc.
        probe: What was changed, a name of `meta_eval.token_fidelity.perturbations`.
        request_sha256: Of all that was asked.
        prompt_tokens: Of the doc's own prompt, BOS included.
        token_ids: n: the tokens that were forced.
        logprobs: n, nats.
        top_logprobs: n: of the likeliest tokens in their places.
    """

    task: str
    doc: int
    probe: str
    request_sha256: str
    prompt_tokens: int
    token_ids: Ints
    logprobs: Floats
    top_logprobs: Floats


_SCHEMA: Schema = {
    "task": "string", "doc": "int64", "probe": "string", "request_sha256": "string", "prompt_tokens": "int32",
    "token_ids": "int32*", "logprobs": "float32*", "top_logprobs": "float32*",
}  # fmt: skip


def probes_path(path: Path) -> Path:
    """Where the probes of a table lie: beside it."""
    return path_beside(path, PROBES)


def write_probes(path: Path, header: Header, some: Iterable[Probed]) -> Header:
    """Write a table of probes, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    rows = ({name: getattr(probe, name) for name in _SCHEMA} for probe in some)
    return write_table(path, header, _SCHEMA, rows, "token_ids")


def read_probes(table: Path) -> Probes:
    """The probes of a table of answers; empty where there are none.

    Raises:
        TokensError: They are damaged.
    """
    path = probes_path(table)
    if not path.exists():
        return {}
    read_header(path, _SCHEMA)
    probes = {}
    for row in chain.from_iterable(read_batches(path, _SCHEMA, BATCH)):
        probe = Probed(**row)
        sides = (probe.logprobs, probe.top_logprobs)
        if not len(probe.token_ids) or any(len(side) != len(probe.token_ids) or not _numbers(side) for side in sides):
            with locating(f"{path}, {probe.task}/{probe.doc}"):
                raise damage_error("its columns have not one number a token")
        probes[probe.task, probe.doc, probe.probe] = probe
    return probes


def _numbers(values: NDArray[np.float32]) -> bool:
    return bool(np.isfinite(values).all())
