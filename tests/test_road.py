"""The core's road, with the commands of its user: a recorded run becomes a pack that is proven, asked and judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from accelerator import answer
from command import cli
from fake_server import FakeServer
from own_record import CHOICES, DOCS, TEXTS, config_of, record_run
from small_model import write_tokenizer


def test_a_recorded_run_is_prepared_verified_asked_reported_and_compared(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_tokenizer(tmp_path / "tiny")
    with FakeServer() as server:
        keys = {"model_name": "tiny", "backend": "server", "base_url": server.url, "margin": 50.0}
        config = config_of(record_run(tmp_path_factory), **keys)
        (tmp_path / "eval_config.yaml").write_text(json.dumps(config), encoding="utf-8")

        def tell(*arguments: str, code: int = 0) -> str:
            done = cli(*arguments, cwd=tmp_path)
            assert done.returncode == code, done.stderr
            return done.stdout

        assert "lm_eval --model local-completions" in tell("prepare")
        verified = json.loads(tell("verify", "--json"))["tasks"]
        assert {name: (task["total"]["docs"], task["total"]["agreement"]) for name, task in verified.items()} == {
            name: (docs, 1.0) for name, docs in DOCS.items()
        }
        asked = json.loads(tell("run", "--no-canary", "--json"))
        assert (asked["asked"], asked["failed"], set(asked["tasks"])) == (sum(DOCS.values()), 0, {TEXTS, CHOICES})
        # The same answers as files.
        assert "requests.jsonl" in json.loads(tell("export", "--json"))["requests"]
        answer(tmp_path / "work_dir", tmp_path / "requests.jsonl", tmp_path / "answers.jsonl")
        tell("grade", "answers.jsonl", "--output", "recorded")
        judged = json.loads(tell("report", "recorded", "--pack", "work_dir", "--json"))
        assert judged["decision"]["outcome"] == "SHIP"
        assert {task["name"]: task["drop"]["value"] for task in judged["tasks"]} == {TEXTS: 0.0, CHOICES: 0.0}
        compared = json.loads(tell("compare", "recorded", "eval_results", "--margin", "50", "--json"))
        assert compared["decision"]["outcome"] == "UNDECIDED"
        assert {task["name"]: task["docs"] for task in compared["tasks"]} == DOCS
