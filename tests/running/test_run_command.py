"""``meta-eval run``: what it shows, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from command import cli
from packs import prepare
from places import TEMPLATES
from recorded import Meta, Respond, learn

from meta_eval.ask import pipeline as story
from meta_eval.ask.request import Request
from meta_eval.doctor.known_answers import find_model_folder
from meta_eval.harness.answer import Answer
from meta_eval.pack.backends.base import BackendError

Run = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    return prepare(place / "work_dir", "meta_gpqa,meta_mmlu_pretrain", model_name=str(find_model_folder()))


@pytest.fixture
def command(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    learn(prepared)
    monkeypatch.setattr(story, "find_client", lambda *_names, **_keys: Meta)
    config = {
        "model_name": str(find_model_folder()), "evals_dataset": "sample", "tasks": "meta_gpqa,meta_mmlu_pretrain",
        "work_dir": str(prepared), "output_path": str(tmp_path / "out"), "max_model_len": 262144, "allow_code": True,
        "template_dir": str(TEMPLATES),
    }  # fmt: skip
    (tmp_path / "eval_config.yaml").write_text(json.dumps(config), encoding="utf-8")

    def go(*arguments: str, how: Respond = lambda ask, client: client.right(ask)) -> CompletedProcess[str]:
        Meta.begin(how)
        return cli("run", *arguments, cwd=tmp_path)

    return go


def test_each_score_is_said_in_the_published_metric_and_the_run_is_judged(command: Run) -> None:
    done = command()
    assert done.returncode == 0
    assert "meta_mmlu_pretrain: 62.5 (acc_macro,none)" in done.stderr, "no number is published for the sample"
    assert "UNDECIDED" in done.stdout
    assert not re.search(r"^\d+ of \d+", done.stderr, re.MULTILINE), "nothing took half a minute"
    assert re.search(r"canary: of (\d+) texts \1 begin as the recorded ones and \1 are equal", done.stderr)


@pytest.mark.parametrize(
    ("limit", "words"),
    [("8", "75.0 (exact_match,last-number; recorded 87.5 on the same docs)"), ("null", "recorded 47.5)")],
)
def test_a_score_of_some_docs_stands_beside_that_of_the_record_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, words: str
) -> None:
    model = str(find_model_folder())
    changes = [
        f"limit={limit}", f"model_name={model}", "backend=server", "base_url=http://127.0.0.1:9/v1", "model_args={}",
        "template_dir=tasks", "tasks=smollm2_numbers,smollm2_words",
    ]  # fmt: skip
    monkeypatch.setattr("meta_eval.cli.init.find_file_of_model", lambda _: Path(model) / "tokenizer.json")
    assert cli("init", "--example", "smollm2", cwd=tmp_path).returncode == 0
    options = [word for change in changes for word in ("--set", change)]
    assert cli("prepare", *options, cwd=tmp_path).returncode == 0
    learn(tmp_path / "work_dir")
    monkeypatch.setattr(story, "find_client", lambda *_names, **_keys: Meta)

    def wrong_once(ask: Request, client: Meta) -> Answer:
        right = client.right(ask)
        return replace(right, text="-1") if ask.id == "smollm2_numbers/0" else right

    Meta.begin(wrong_once)
    done = cli("run", *options, "--tasks", "smollm2_numbers", "--no-report", "--no-canary", cwd=tmp_path)
    assert done.returncode == 0
    assert words in done.stderr


def test_the_report_can_be_left_out(command: Run) -> None:
    done = command("--no-report")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "judge it with: meta-eval report" in done.stderr


def test_a_page_and_an_object_are_written(command: Run, tmp_path: Path) -> None:
    done = command("--html", "page.html", "--json")
    output = json.loads(done.stdout)
    assert output["canary"]["same"] == output["canary"]["choices"] == 16
    assert output["report"]["tasks"]
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_the_gate_decides_the_exit_code_and_is_read_first(command: Run, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("margin: nonsense\n", encoding="utf-8")
    assert command("--gate", "gate.yaml").returncode == 2
    assert not Meta.asked
    (tmp_path / "gate.yaml").write_text("margin: 1\n", encoding="utf-8")
    assert command("--gate", "gate.yaml").returncode == 3


def test_what_needs_the_report_is_refused_without_it(command: Run) -> None:
    assert "needs the report" in command("--html", "page.html", "--no-report").stderr
    assert "needs the report" in command("--gate", "gate.yaml", "--shard", "0/2").stderr


@pytest.mark.parametrize("shard", ["0/" + "9" * 5000, "9" * 5000 + "/2", "2/2", "1", "-1/2"])
def test_what_is_no_shard_is_refused(command: Run, shard: str) -> None:
    done = command("--shard", shard)
    assert done.returncode == 2
    assert "is not a shard. Write I/N" in " ".join(done.stderr.split())


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(command: Run) -> None:
    def tired(ask: Request, client: Meta) -> Answer:
        if Meta.asked.total() == 21:
            raise KeyboardInterrupt
        return client.right(ask)

    done = command("--no-canary", how=tired)
    assert done.returncode == 130
    output = json.loads(command("--no-canary", "--no-report", "--json").stdout)
    assert output["before"] == 20
    assert f"20 of {20 + output['asked']} answers are saved. Rerun the same command to resume" in done.stderr


def test_an_engine_that_dies_says_how_many_answers_are_saved(command: Run) -> None:
    def died(at: int) -> str:
        def killed(ask: Request, client: Meta) -> Answer:
            if Meta.asked.total() == at:
                raise BackendError("ended (137: killed)", where="llama.cpp", hint="Its log: a.log")
            return client.right(ask)

        done = command("--no-canary", how=killed)
        assert done.returncode == 2
        return done.stderr

    assert "llama.cpp: ended (137: killed). Its log: a.log\n" in died(1)
    said = died(21)
    output = json.loads(command("--no-canary", "--no-report", "--json").stdout)
    assert output["before"] == 20
    kept = f". 20 of {20 + output['asked']} answers are saved: rerun the same command"
    assert f"llama.cpp: ended (137: killed). Its log: a.log{kept}\n" in said


def test_a_broken_set_up_is_one_message(command: Run) -> None:
    done = command(how=lambda ask, _: ask.answer(text="", choices=[(-1.0, None)] * len(ask.continuations)))
    assert done.returncode == 2
    assert "every answer is degenerate (empty)" in done.stderr
    assert "Traceback" not in done.stderr
