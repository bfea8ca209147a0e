"""Runs whose results file is lost: how they were generated stands in their samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import write_run

from meta_eval.harness.lm_eval_run import read_run
from meta_eval.judge.decide import Decision
from meta_eval.judge.runs import judge

VERDICTS = [1.0] * 150 + [0.0] * 50
GREEDY = {"until": ["</s>"], "max_gen_toks": 32, "do_sample": False}


def asked(**settings: Any) -> dict[str, Any]:
    """A line of samples that was generated with these settings, or a likelihood."""
    return {"line": {"arguments": {"gen_args_0": {"arg_0": "a prompt", "arg_1": GREEDY | settings}}}}


def configured(**settings: Any) -> dict[str, Any]:
    return {"extra": {"configs": {"meta_some": {"task": "meta_some", "generation_kwargs": GREEDY | settings}}}}


def compare(folder: Path, a: dict[str, Any], b: dict[str, Any]) -> Decision:
    return judge(*(read_run([write_run(folder / side, VERDICTS, **of)]) for side, of in (("A", a), ("B", b)))).decision


@pytest.mark.parametrize("keeps", [{"results": False}, {"extra": {"configs": {}}}])
def test_settings_that_only_samples_record_are_compared(keeps: dict[str, Any], tmp_path: Path) -> None:
    sampled = {**asked(do_sample=True, temperature=1.0), **keeps}
    decision = compare(tmp_path, {**asked(), **configured()}, sampled)
    assert (decision.outcome, decision.invalid) == ("UNDECIDED", True)
    assert "temperature: none in A, 1 in B" in " ".join(decision.reasons)


def test_a_copy_without_its_results_file_is_like_the_run(tmp_path: Path) -> None:
    whole = {**asked(), "extra": {**configured()["extra"], "chat_template": "{{ messages }}"}}
    assert not compare(tmp_path, whole, {**asked(), "results": False}).invalid


def test_of_likelihoods_no_settings_are_missed(tmp_path: Path) -> None:
    likelihood = {"line": {"arguments": {"gen_args_0": {"arg_0": "a prompt", "arg_1": " A"}}}}
    whole = {**likelihood, "config": {"gen_kwargs": {"temperature": 0.5}}}
    assert not compare(tmp_path, whole, {**likelihood, "results": False}).invalid
