"""A model of another maker, run over a recorded run: its tokenizer puts no BOS before a text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from command import cli
from fake_model import FakeClient, model_folder
from own_record import TEXTS, config_of, record_run
from pack_runs import run_pack
from packs import prepare, read_docs
from places import REPOSITORY
from recorded_runs import own_gsm8k
from runs import run_lm_eval
from tokenizers import Tokenizer

from meta_eval import Config, report, verify
from meta_eval.ask.request import Request
from meta_eval.base.errors import UserError
from meta_eval.harness.answer import Answer
from meta_eval.judge.token_table import read_choices, read_tokens
from meta_eval.pack.manifest import read_manifest


def without_bos(folder: Path) -> Path:
    model_folder(folder)
    path = folder / "tokenizer.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**tree, "post_processor": None}), encoding="utf-8")
    return folder


@pytest.mark.plugin("tokens")
def test_fidelity_forces_the_recorded_answers_and_compares_the_recorded_likelihoods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from meta_eval.plugins.tokens.api import fidelity

    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.plugins.tokens.token_scoring.find_client", lambda *_backend, **_keys: made)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13", "eval_results")
    model = without_bos(tmp_path / "m")
    tasks = {"template_dir": str(REPOSITORY / "tools/lm_eval_tasks"), "model_name": str(model)}
    pack = prepare(tmp_path / "pack", "tiny_sums,tiny_free", evals_dataset="eval_results", **tasks)
    done = fidelity(pack=pack)
    assert done.tables is not None and done.tables.texts is not None and done.tables.choices is not None
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    texts = {answer.doc: tokenizer.decode(answer.token_ids) for answer in read_tokens(done.tables.texts)}
    assert texts == {number: doc["recorded_output"] for number, doc in enumerate(read_docs(pack, "tiny_free"))}
    _, choices = read_choices(done.tables.choices)
    for choice, doc in zip(choices, read_docs(pack, "tiny_sums"), strict=True):
        assert choice.recorded == pytest.approx(
            [-value for value in doc["recorded_negative_log_likelihoods"]], rel=1e-6
        )


def test_a_record_that_was_asked_without_a_bos_is_run_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Sequence[int]] = []

    class Client(FakeClient):
        asked: ClassVar[list[str]] = []
        made: ClassVar[list[FakeClient]] = []

        def answer(self, asks: Iterable[Request]) -> Iterator[Answer]:
            kept = list(asks)
            given.extend(ask.prompt_ids or () for ask in kept)
            return super().answer(kept)

    monkeypatch.setattr("meta_eval.ask.pipeline.find_client", lambda *_backend, **_keys: Client)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13", "eval_results")
    (results,) = Path("eval_results").rglob("results_*.json")
    tree = json.loads(results.read_text(encoding="utf-8"))
    tree["config"]["model_args"]["add_bos_token"] = False
    results.write_text(json.dumps(tree), encoding="utf-8")
    model = model_folder(tmp_path / "m")  # its tokenizer puts one before every text
    config = Config(
        model_name=str(model), evals_dataset="eval_results", tasks=("tiny_free",), output_path="new",
        template_dir=str(REPOSITORY / "tools/lm_eval_tasks"),
    )  # fmt: skip
    ran = run_pack(config, canary=False)
    assert ran.asked > 0
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    docs = read_docs(Path("work_dir"), "tiny_free")
    assert given == [tokenizer.encode(doc["prompt"], add_special_tokens=False).ids for doc in docs]
    assert not {tuple(tokenizer.encode("").ids)}.intersection(tuple(ids[:1]) for ids in given)
    assert "add_bos_token=False" in ",".join(read_manifest(Path("work_dir")).command)


def test_model_and_benchmark_in_score_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.ask.pipeline.find_client", lambda *_backend, **_keys: made)
    monkeypatch.chdir(tmp_path)
    templates = own_gsm8k(tmp_path / "templates")
    keys = {"evals_dataset": "lm-eval", "tasks": ("gsm8k@2",), "template_dir": str(templates)}
    ran = run_pack(Config(model_name=str(without_bos(tmp_path / "m")), **keys))
    assert ran.graded is not None
    assert (ran.asked, list(ran.graded.scores)) == (8, ["gsm8k"])


@pytest.mark.plugin("meta")
def test_a_tokenizer_without_bos_is_asked_without_one_and_refused_for_metas_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    monkeypatch.setattr("meta_eval.ask.pipeline.find_client", lambda *_backend, **_keys: made)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPOSITORY / "tests/data/lm_eval_outputs/0.4.13", "eval_results")
    settings = {
        "model_name": str(without_bos(tmp_path / "m")), "template_dir": str(REPOSITORY / "tools/lm_eval_tasks"),
        "output_path": "new_results",
    }  # fmt: skip
    config = Config(evals_dataset="./eval_results", tasks=("tiny_sums", "tiny_free"), **settings)
    ran = run_pack(config, canary=False)
    assert ran.graded is not None
    assert (ran.asked, ran.failed, set(ran.graded.scores)) == (7, 0, {"tiny_sums", "tiny_free"})
    of_meta = Config(**{**settings, "evals_dataset": "sample", "tasks": ("meta_gpqa",), "work_dir": "other"})
    with pytest.raises(UserError, match="puts 0 tokens before a text"):
        run_pack(of_meta.model_copy(update={"template_dir": str(REPOSITORY / "meta_template")}), canary=False)


@pytest.mark.plugin("meta")
def test_prepare_and_report_say_of_a_tokenizer_without_bos_what_run_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(
        "prepare",
        "--set",
        "evals_dataset=sample",
        "--set",
        "tasks=meta_gpqa",
        "--set",
        f"model_name={without_bos(tmp_path / 'm')}",
    )
    assert done.returncode == 0, done.stderr
    assert "would ask without a BOS" in done.stderr and "puts 0 tokens before a text" in done.stderr
    run_lm_eval(Path("work_dir"), ["meta_gpqa"], Path("out"))
    (results,) = Path("out").rglob("results_*.json")
    tree = json.loads(results.read_text())
    for name, invalid in (("./m", True), ("org/elsewhere", False)):
        tree["config"]["model_args"] = {"pretrained": name, "add_bos_token": True}
        results.write_text(json.dumps(tree))
        decision = report("out", pack="work_dir").decision
        assert (decision.invalid, decision.reasons[0].startswith("asked without BOS: meta_gpqa")) == (invalid, invalid)


def test_a_run_with_another_limit_of_tokens_than_the_record_is_no_run_of_its_pack(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As in compare, though docs and prompts are the same."""
    record = record_run(tmp_path_factory)
    run = Path(shutil.copytree(record / "run", tmp_path / "run"))
    (results,) = run.rglob("results_*.json")
    tree = json.loads(results.read_text(encoding="utf-8"))
    tree["configs"][TEXTS]["generation_kwargs"]["max_gen_toks"] = 32
    results.write_text(json.dumps(tree), encoding="utf-8")
    (samples,) = run.rglob(f"samples_{TEXTS}_*.jsonl")
    text = samples.read_text(encoding="utf-8")
    assert '"max_gen_toks": 64' in text
    samples.write_text(text.replace('"max_gen_toks": 64', '"max_gen_toks": 32'), encoding="utf-8")
    pack = prepare(tmp_path / "pack", **{**config_of(record), "tasks": TEXTS})
    verify(pack)
    of_pack = {"pack": pack, "tasks": [TEXTS], "margin": 90.0, "cap": 95.0}
    assert report(record / "run", **of_pack).decision.outcome == "SHIP"
    decision = report(run, **of_pack).decision
    assert decision.outcome == "UNDECIDED"
    assert f"other settings: {TEXTS} (max_gen_toks=32)" in decision.caveats
    beside = prepare(tmp_path / "beside", **{**config_of(record), "tasks": TEXTS, "baseline": (str(run),)})
    verify(beside)
    decision = report(record / "run", **{**of_pack, "pack": beside}).decision
    assert decision.outcome == "UNDECIDED"
    assert f"runs not alike: {TEXTS} (max_gen_toks: 64 in the pack, 32 in the baseline)" in decision.caveats
