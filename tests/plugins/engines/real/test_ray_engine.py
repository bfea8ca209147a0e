"""vLLM on a Ray cluster of this machine: interrupted, its worker killed, and still the same as undisturbed."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from on_engines import SECONDS, answers, descendants, lines, project, run, runs_still, scores, start, until, verdicts_of

pytestmark = pytest.mark.engine

FIELDS = ("text", "choices", "token_ids", "finish_reason", "prompt_tokens", "completion_tokens")


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> Path:
    """A run that was interrupted with Ctrl-C, went on, lost its worker, and went on to the end."""
    folder = project(
        tmp_path_factory.mktemp("ray") / "here", taught_model[0], backend="ray", model_args={"enforce_eager": True}
    )
    first = start(folder)
    until(lambda: len(lines(folder)) >= 8 or first.poll() is not None)
    started = descendants(first.pid)
    first.send_signal(signal.SIGINT)
    assert first.wait(timeout=SECONDS) == 130, (folder / "log.txt").read_text()[-3000:]
    until(lambda: not any(map(runs_still, started)), seconds=60)
    kept = len(lines(folder))
    second = start(folder)
    until(lambda: len(lines(folder)) >= kept + 8 or second.poll() is not None)
    workers = [pid for pid, name in descendants(second.pid).items() if "vLLMEngineStageUDF" in name]
    assert workers, (folder / "log.txt").read_text()[-3000:]
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    second.wait(timeout=SECONDS)
    if second.returncode:
        run(folder)
    return folder


def test_every_answer_is_that_of_an_undisturbed_run_and_was_asked_for_once(ray: Path, in_process: Path) -> None:
    assert answers(ray, *FIELDS) == answers(in_process, *FIELDS)


def test_the_scores_and_verdicts_are_those_of_an_undisturbed_run(ray: Path, in_process: Path) -> None:
    assert verdicts_of(ray) == verdicts_of(in_process)
    assert scores(ray) == scores(in_process)


def test_taught_answers_come_back_word_for_word(ray: Path, taught_model: tuple[Path, Mapping[str, str]]) -> None:
    texts = {text for (text,) in answers(ray, "text").values()}
    assert set(taught_model[1].values()) <= texts


def test_stdout_of_ray_stays_out_of_the_terminal(ray: Path) -> None:
    log = (ray / "log.txt").read_text()
    assert "streaming_executor" not in log
    assert (ray / "eval_results/answers/logs/ray.log").stat().st_size > 0
