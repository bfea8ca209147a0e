"""Files of answers that memory does not hold: one message, with code 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from accelerator import answer, lines_of
from forked import started
from own_record import TEXTS, config_of, record_run
from packs import prepare

from meta_eval import export

# Where it is a thread that gets none, the system's loader ends the process.
RAN_OUT = (
    "error: memory ran out. Free some or allow more (ulimit -v), and run the same command again\n",
    "perhaps because memory ran out; code of {pack} ran in it. The same command goes on from what was saved\n",
)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python needs more for the short answers")
def test_answers_that_memory_does_not_hold_are_one_message(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With 24 MiB more than the process has at its start, where as many short answers are graded."""
    pack = prepare(tmp_path / "work_dir", **config_of(record_run(tmp_path_factory), tasks=TEXTS))
    export(pack, tmp_path / "requests.jsonl")
    answers = answer(pack, tmp_path / "requests.jsonl", tmp_path / "short.jsonl")
    lines = [{**line, "text": "x" * 2**20} for line in lines_of(answers) if "text" in line]
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ran_out = tuple(end.format(pack=pack) for end in RAN_OUT)
    for name, code, end in (("short", 0, f"--pack {pack}\n"), ("long", 2, ran_out)):
        words = ("grade", tmp_path / f"{name}.jsonl", "--pack", pack, "--output", tmp_path / "out")
        running = started(*words, memory=24 * 2**20)
        out, said = running.communicate()
        assert (running.returncode, out) == (code, "")
        assert said.endswith(end) and f"\n{said}".count("\nerror: ") == (code == 2)
