"""doctor of an engine: each fault of a backend fails the check that is for it, and no other."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from command import cli
from fake_server import FakeServer
from known_llama import NumpyClient, model, tool
from marks import few
from offered import offer, withhold
from packs import prepare
from places import THOROUGH

from meta_eval.cli import doctor
from meta_eval.doctor import pack_checks
from meta_eval.doctor.engine_checks import EngineChecks, check_engine
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.doctor.known_answers import find_model_folder, make_settings, read_known_answers
from meta_eval.harness.settings import find_default_backend
from meta_eval.pack.backends.server import PROGRAMS

BOS = "exactly one BOS"
KEPT = "special tokens are kept"
LONG = "a long prompt is not cut"
GREEDY = "greedy, and twice the same"
STOP = "answers end at stop texts"


def failed(fault: str, *, counts: bool = True) -> set[str]:
    result = check_engine(NumpyClient(fault, counts=counts))
    assert result.passed == all(check.status == "passed" for check in result.checks)
    assert all(check.hint for check in result.checks if check.status == "failed")
    return {check.name for check in result.checks if check.status == "failed"}


def test_a_backend_without_fault_passes_every_check() -> None:
    result = check_engine(NumpyClient())
    assert [check.name for check in result.checks if check.status != "passed"] == []
    assert len(result.checks) == 11
    (bos,) = (check for check in result.checks if check.name == BOS)
    assert bos.what == "texts are those of 1, likelihoods are those of 1, the engine counts 1"


FAULTS = [
    ("strips BOS", {BOS}),
    ("adds BOS", {BOS}),
    ("ignores stop texts", {STOP}),
    ("ignores the end", {"answers end at the end token"}),
    ("ignores max_tokens", {"max_tokens gives 'length'"}),
    ("cuts prompts", {LONG}),
    ("drops special tokens", {KEPT}),
    ("samples", {GREEDY}),
    ("likelihood of the token beside", {"likelihoods", "likelihoods in one pass"}),
    ("one pass is wrong", {"likelihoods in one pass"}),
    ("rounds", {"likelihoods", "likelihoods in one pass"}),
    ("one fails", {"every request answered"}),
    ("says stop at the limit", {"max_tokens gives 'length'"}),
]


@pytest.mark.parametrize(("fault", "checks"), FAULTS if THOROUGH else FAULTS[::3])
def test_a_fault_fails_its_own_check_and_no_other(fault: str, checks: set[str]) -> None:
    assert failed(fault) == checks


@pytest.mark.parametrize(("fault", "check"), few([("strips BOS", BOS), ("adds BOS", BOS), ("cuts prompts", LONG)], 2))
def test_the_answers_tell_it_where_the_engine_counts_no_tokens(fault: str, check: str) -> None:
    assert failed(fault, counts=False) == {check}


def test_rounding_is_told_from_wrong_tokens() -> None:
    hints = {
        fault: next(check.hint for check in check_engine(NumpyClient(fault)).checks if check.name == "likelihoods")
        for fault in ("rounds", "likelihood of the token beside")
    }
    assert "float32" in hints["rounds"]
    assert "other tokens" in hints["likelihood of the token beside"]


def test_what_is_known_is_what_the_shipped_model_says() -> None:
    """The shipped answers, some of each kind, computed anew from the shipped weights."""
    content = json.loads((find_model_folder().parent / "known.json").read_text(encoding="utf-8"))
    assert (
        content["weights_sha256"]
        == hashlib.sha256((find_model_folder() / "model.safetensors").read_bytes()).hexdigest()
    )
    anew = tool.Known(model())
    some = [
        known_answer
        for known_answer in content["asks"]
        if known_answer["group"] != "long" and known_answer["number"] < 2
    ]
    for known_answer in some:
        if "continuations" in known_answer:
            anew.choices(known_answer["group"], known_answer["prompt"], known_answer["continuations"])
        else:
            anew.text(
                known_answer["group"],
                known_answer["prompt"],
                stop=known_answer["stop"],
                max_tokens=known_answer["max_tokens"],
            )
    for ours, theirs in zip(anew.asks, some, strict=True):
        if "continuations" in ours:
            assert [pytest.approx(value, abs=1e-4) for of_bos in ours["said"] for value in of_bos] == [
                value for of_bos in theirs["said"] for value in of_bos
            ]
        else:
            assert ours["said"] == theirs["said"]


def test_the_taught_pairs_are_known_word_for_word() -> None:
    known = {
        read_known_answer.request.prompt: read_known_answer.texts[1]
        for read_known_answer in read_known_answers()
        if read_known_answer.group in ("answers", "special")
    }
    assert known == {pair["prompt"]: (pair["answer"], "stop") for pair in tool.read_pairs()}


def test_what_is_shipped_is_small() -> None:
    assert sum(path.stat().st_size for path in find_model_folder().parent.rglob("*") if path.is_file()) < 4_000_000


@pytest.mark.plugin("engines")
def test_the_line_that_serves_the_model_is_printed_alone() -> None:
    done = cli("doctor", "--show-command")
    assert done.stdout == f"vllm serve {find_model_folder()} --dtype float32 --max-model-len 4096\n"


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared") / "pack", "meta_gpqa")


def test_an_address_with_a_credential_is_refused_with_where_it_belongs() -> None:
    done = cli("doctor", "--base-url", "http://u:secret@127.0.0.1:9/v1", OPENAI_API_KEY="sk-x")
    assert (done.returncode, "secret" in done.stderr) == (2, False)
    assert "--base-url: holds a credential" in done.stderr and "api_key_env" in done.stderr


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--base-url", "http://127.0.0.1:9/v1"), "http://127.0.0.1:9/v1: does not answer: nobody listens there."),
        (("--base-url", "{}"), "{}: serves other, not "),
        pytest.param(("--backend", "chat"), "--base-url: is not set.", marks=pytest.mark.plugin("chat")),
    ],
)
def test_a_server_that_doctor_cannot_ask_is_told_with_doctors_own_options(words: tuple[str, ...], what: str) -> None:
    with FakeServer(model="other") as server:
        done = cli("doctor", *(word.format(server.url) for word in words))
    assert done.returncode == 2 and what.format(server.url) in done.stderr
    assert done.stderr.endswith("where it has another name for the model, that with --model\n")
    assert "base_url" not in done.stderr and "model_name" not in done.stderr


@pytest.mark.parametrize(("fault", "code"), [("", 0), ("ignores the end", 1)])
def test_doctor_asks_the_engine_of_a_whole_pack(
    fault: str, code: int, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone, or with a pack after the pack, whose backend it is."""
    asked = []

    def ask(options: EngineOptions) -> EngineChecks:
        asked.append(make_settings(options).backend)
        return check_engine(NumpyClient(fault))

    monkeypatch.setattr(doctor, "_ask_engine", ask)
    monkeypatch.setattr(pack_checks, "check_pack", pack_checks.check_written_pack)
    named = [["--backend", "server"], ["--base-url", "http://h:1/v1"]] if not code else []
    for words in (["--engine"], *named):
        done = cli("doctor", *words, "--json")
        content = json.loads(done.stdout)
        assert (done.returncode, content["passed"], list(content)) == (
            code, not code, ["engine", "seconds", "passed", "checks"],
        )  # fmt: skip
    done = cli("doctor", pack, "--engine", "--json")
    both = json.loads(done.stdout)
    assert (done.returncode, both["passed"], both["pack"]) == (code, not code, str(pack))
    assert [check["status"] for check in both["checks"]] == ["passed"] * 3
    assert both["installation"]["checks"] == content["checks"]
    default = find_default_backend()
    assert asked == [default, *(["server"] * len(named)), default]


def test_doctor_asks_no_engine_where_the_pack_is_broken(tmp_path: Path) -> None:
    done = cli("doctor", tmp_path, "--engine", "--json")
    assert (done.returncode, json.loads(done.stdout)["passed"]) == (2, False)
    assert "the engine was not checked: fix the failed checks first" in done.stderr


def test_an_unknown_backend_is_one_message() -> None:
    done = cli("doctor", "--backend", "servr")
    assert done.returncode == 2
    assert "unknown backend 'servr'; did you mean 'server'?" in done.stderr


def test_without_a_default_a_backend_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    withhold(monkeypatch, "meta_eval.default_backend")
    done = cli("doctor", "--engine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--backend: no backend is named, and no engine here is the default. Allowed: server" in done.stderr
    offer(monkeypatch, "meta_eval.default_backend", mine=1, yours=2)
    assert "no backend is named, and mine and yours are each the default. Allowed: " in cli("doctor", "--engine").stderr


def test_without_a_program_that_serves_there_is_no_line_to_print(monkeypatch: pytest.MonkeyPatch) -> None:
    withhold(monkeypatch, PROGRAMS)
    done = cli("doctor", "--show-command")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
