"""The table of probes: what goes in comes out, and what is damaged is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from forced_tables import HEADER, table

from meta_eval.judge.token_table import TokensError, list_tables
from meta_eval.plugins.tokens.perturbations import ALONE
from meta_eval.plugins.tokens.probe_table import Probed, find_probes_path, read_probes, write_probes


def probed(doc: int, **other: object) -> Probed:
    given = {
        "task": "t", "doc": doc, "probe": ALONE, "request_sha256": "0" * 64, "prompt_tokens": 9,
        "token_ids": np.array([1, 2], np.int32), "logprobs": np.array([-1, -2], np.float32),
        "top_logprobs": np.array([-1, -0.5], np.float32),
    }  # fmt: skip
    return Probed(**{**given, **other})  # type: ignore[arg-type]


def test_probes_lie_beside_their_table_and_are_read_as_they_were_written(tmp_path: Path) -> None:
    answers = table(tmp_path / "a.parquet", [])
    assert read_probes(answers.path) == {}
    write_probes(find_probes_path(answers.path), HEADER, [probed(0), probed(1)])
    assert list_tables(tmp_path) == [answers.path]
    probes = read_probes(answers.path)
    assert list(probes) == [("t", 0, ALONE), ("t", 1, ALONE)]
    probe = probes["t", 1, ALONE]
    assert (probe.prompt_tokens, probe.token_ids.tolist(), probe.logprobs.tolist()) == (9, [1, 2], [-1, -2])


@pytest.mark.parametrize(
    "other",
    [
        {"logprobs": np.array([-1], np.float32)},
        {"logprobs": np.array([-1, np.nan], np.float32)},
        {"token_ids": np.zeros(0, np.int32), "logprobs": np.zeros(0), "top_logprobs": np.zeros(0)},
    ],
)
def test_damaged_probes_are_refused(tmp_path: Path, other: dict[str, object]) -> None:
    write_probes(find_probes_path(tmp_path / "a.parquet"), HEADER, [probed(0, **other)])
    with pytest.raises(TokensError, match="not one number a token|is no number"):
        read_probes(tmp_path / "a.parquet")
