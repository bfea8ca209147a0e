"""Files of an earlier version, from before the rooms (manifest schema 4): read as before, or prepared again.

``tests/data/frozen`` holds two runs over rows of the embedded sample, as `grade` wrote them on 26 November 2026.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command import cli
from places import REPOSITORY

FROZEN = REPOSITORY / "tests" / "data" / "frozen"


def test_results_of_an_earlier_version_are_compared_as_they_were(tmp_path: Path) -> None:
    done = cli("compare", str(FROZEN / "a"), str(FROZEN / "b"), "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    judged = json.loads(done.stdout)
    (task,) = judged["tasks"]
    interval = task["drop"]["interval"]
    # What that version said of them.
    assert judged["decision"]["outcome"] == "UNDECIDED"
    assert (task["docs"], task["metric"]) == (15, "exact_match,strict-match")
    assert task["drop"]["value"] == pytest.approx(1 / 15)
    assert (interval["lower"], interval["upper"]) == pytest.approx((-0.3246362303407528, 0.4930837623304991))
    assert (task["flips"]["baseline_only"], task["flips"]["candidate_only"]) == (2, 1)
    assert (task["cut"]["docs"], task["cut"]["drop_without"]["value"]) == (2, pytest.approx(1 / 13))


def test_a_pack_of_an_earlier_version_is_prepared_again(tmp_path: Path) -> None:
    shutil.copytree(FROZEN / "pack", tmp_path / "pack")
    done = cli("report", str(FROZEN / "a"), "--pack", "pack", cwd=tmp_path)
    assert done.returncode == 2
    assert "has schema version 4" in done.stderr
    assert "Run `meta-eval prepare` to make a pack" in done.stderr
