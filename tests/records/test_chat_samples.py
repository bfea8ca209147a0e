"""Runs that stock lm-eval recorded through a chat endpoint are asked again with the very same bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_stub import ChatStub, open_stock_client
from packs import prepare, read_docs
from recorded_runs import own_gsm8k, record, whole_tasks

from meta_eval import verify
from meta_eval.answers.chat_body import read_conversation
from meta_eval.answers.requests import build_requests
from meta_eval.backends import registry
from meta_eval.backends.base import Backend
from meta_eval.messages.errors import UserError
from meta_eval.pack.manifest import read_manifest
from meta_eval.results.lm_eval_run import read_newest
from meta_eval.results.output_index import index_outputs
from meta_eval.verification.evaluator import Evaluator

WAYS: dict[str, dict[str, Any]] = {
    "multiturn": {"fewshot_as_multiturn": True, "system_instruction": "Be brief."},
    "one turn": {"fewshot_as_multiturn": False},
}


@pytest.fixture(scope="module")
def stub() -> Iterator[ChatStub]:
    with ChatStub() as server:
        yield server


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_gsm8k(tmp_path_factory.mktemp("tasks") / "templates")


@pytest.fixture(scope="module", params=sorted(WAYS))
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, stub: ChatStub, templates: Path
) -> SimpleNamespace:
    """A run of stock lm-eval, what it asked, and the pack of it."""
    folder = tmp_path_factory.mktemp("recorded")
    stub.take_bodies()
    run = record(
        templates, folder / "run", ["gsm8k"], model=open_stock_client(stub), chat=True, num_fewshot=2,
        **WAYS[request.param],
    )  # fmt: skip
    bodies = stub.take_bodies()
    pack = prepare(folder / "pack", "recorded", evals_dataset=str(run), template_dir=str(templates))
    return SimpleNamespace(run=run, bodies=bodies, pack=pack, way=request.param, templates=templates)


def test_the_docs_are_the_bodies_that_were_asked(recorded: SimpleNamespace) -> None:
    bodies = [json.loads(doc["prompt"]) for doc in read_docs(recorded.pack, "gsm8k")]
    asked = [{"messages": json.loads(body)["messages"]} for body in recorded.bodies]
    assert sorted(json.dumps(body, sort_keys=True) for body in bodies) == sorted(
        json.dumps(body, sort_keys=True) for body in asked
    )
    roles = [message["role"] for message in bodies[0]["messages"]]
    turns = {"multiturn": ["system", *["user", "assistant"] * 2, "user"], "one turn": ["user"]}
    assert roles == turns[recorded.way]


def test_stock_lm_eval_asks_the_same_bodies_again(recorded: SimpleNamespace, stub: ChatStub, tmp_path: Path) -> None:
    stub.take_bodies()
    again = record(recorded.pack, tmp_path / "again", ["gsm8k"], model=open_stock_client(stub), chat=True)
    assert stub.take_bodies() == recorded.bodies
    outputs = index_outputs([again])
    run = read_newest(outputs, outputs.tasks["gsm8k"])
    assert run is not None
    assert [doc.prompt_matches for doc in run.docs] == [True] * 8


def test_verify_replays_the_recorded_answers(recorded: SimpleNamespace) -> None:
    tallies = verify(recorded.pack).tasks["gsm8k"].tallies
    assert tallies is not None
    assert (tallies.total.docs, tallies.total.agreement) == (8, 1.0)
    assert {doc["recorded_is_correct"] for doc in read_docs(recorded.pack, "gsm8k")} == {True, False}


def test_requests_are_of_kind_chat_with_what_the_endpoint_was_sent(recorded: SimpleNamespace) -> None:
    requests = list(build_requests(Evaluator(recorded.pack), "gsm8k", None))
    assert {(request.kind, request.max_tokens) for request in requests} == {("chat", 256)}
    sent = json.loads(recorded.bodies[0])
    assert {tuple(request.stop) for request in requests} == {tuple(sent["stop"])}
    assert read_manifest(recorded.pack).tasks["gsm8k"].asked_as == "chat"


class ChatBackend(Backend):
    """As much of a chat backend as prepare needs."""

    name = "chat"
    kinds = frozenset(("generate", "chat"))
    commanded_as = frozenset(("chat",))

    def load_client(self) -> type[Any]:
        raise NotImplementedError


@pytest.fixture
def chat_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.SHIPPED, "chat", ChatBackend())  # type: ignore[misc]


@pytest.mark.usefixtures("chat_backend")
def test_tasks_of_lm_eval_are_made_of_the_bodies_that_stock_lm_eval_asks(
    recorded: SimpleNamespace, stub: ChatStub, tmp_path: Path
) -> None:
    keys = {"evals_dataset": "lm-eval", "template_dir": str(recorded.templates), "backend": "chat"}
    pack = prepare(tmp_path / "pack", "gsm8k@2", **keys, **WAYS[recorded.way])
    stub.take_bodies()
    record(pack, tmp_path / "run", ["gsm8k"], model=open_stock_client(stub), chat=True)
    assert stub.take_bodies() == recorded.bodies
    (entry,) = read_manifest(pack).tasks.values()
    assert (entry.asked_as, entry.record and entry.record.chat_template) == ("chat", False)


@pytest.mark.usefixtures("chat_backend")
def test_an_answer_that_a_task_begins_is_counted_and_sent_as_stock_lm_eval_sends_it(
    stub: ChatStub, tmp_path: Path
) -> None:
    templates = own_gsm8k(tmp_path / "templates", gen_prefix="It is")
    stub.take_bodies()
    run = record(templates, tmp_path / "run", ["gsm8k"], model=open_stock_client(stub), chat=True, num_fewshot=0)
    bodies = stub.take_bodies()
    assert json.loads(bodies[0])["messages"][-1]["content"].strip() == "It is"
    for name, keys in {"lm-eval": {"backend": "chat", "tasks": "gsm8k@0"}, str(run): {"tasks": "recorded"}}.items():
        pack = prepare(tmp_path / "pack", evals_dataset=name, template_dir=str(templates), **keys)
        assert read_manifest(pack).tasks["gsm8k"].warnings["begun_answer"] == 8
        record(pack, tmp_path / "again", ["gsm8k"], model=open_stock_client(stub), chat=True)
        assert stub.take_bodies() == bodies
        request = next(build_requests(Evaluator(pack), "gsm8k", None))
        assert "continue_final_message" not in read_conversation(request)
        assert read_conversation(request, can_continue=True)["continue_final_message"] is True


@pytest.mark.usefixtures("chat_backend")
def test_a_task_of_likelihoods_cannot_be_asked_as_chat(tmp_path: Path) -> None:
    templates = whole_tasks(tmp_path / "templates", ["arc_challenge"])
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "backend": "chat"}
    with pytest.raises(UserError, match="compares the likelihoods of texts, which chat endpoints do not give"):
        prepare(tmp_path / "pack", "arc_challenge", **keys)


def test_other_backends_have_no_command_for_chat_messages(recorded: SimpleNamespace) -> None:
    manifest = read_manifest(recorded.pack)
    assert (manifest.run_settings.backend, manifest.command) == ("vllm", ())
    assert manifest.no_command == "no lm_eval command of backend vllm asks chat messages, as 1 of 1 tasks do"


def change_samples(run: Path, to: Path, change: Callable[[dict[str, Any], int], None]) -> Path:
    """Copy a run and change its samples."""
    to.mkdir()
    for path in run.rglob("*.json*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.name.startswith("samples"):
            samples = [json.loads(line) for line in lines]
            for sample in samples:
                change(sample, sample["doc_id"])
            lines = [json.dumps(sample) for sample in samples]
        (to / path.name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return to


def _request(sample: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = sample["arguments"]["gen_args_0"]
    return request


def _not_json(sample: dict[str, Any], _: int) -> None:
    _request(sample)["arg_0"] = ["[{"]
    del sample["prompt_hash"]


def _no_role(sample: dict[str, Any], _: int) -> None:
    _request(sample)["arg_0"] = ['[{"content": "Hi"}]']
    del sample["prompt_hash"]


def _no_messages(sample: dict[str, Any], _: int) -> None:
    _request(sample)["arg_0"] = {"role": "user"}
    del sample["prompt_hash"]


def _edited(sample: dict[str, Any], _: int) -> None:
    _request(sample)["arg_0"] = [_request(sample)["arg_0"][0].replace("pears", "plums")]


def _some_as_text(sample: dict[str, Any], number: int) -> None:
    if number == 3:
        _request(sample)["arg_0"] = "Question: How many?"
        del sample["prompt_hash"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_not_json, "the request is not JSON"),
        (_no_role, "the request has a message without a role"),
        (_no_messages, "neither as text nor as chat messages"),
        (_edited, "does not have its recorded SHA-256"),
        (_some_as_text, "doc 3: was sent in another way than the docs before it"),
    ],
)
def test_damaged_chat_samples_are_refused_with_the_reason(
    recorded: SimpleNamespace, tmp_path: Path, change: Callable[[dict[str, Any], int], None], why: str
) -> None:
    run = change_samples(recorded.run, tmp_path / "run", change)
    with pytest.raises(UserError, match=why):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(run), template_dir=str(recorded.templates))


def test_what_stock_lm_eval_would_have_sent_is_what_the_pack_sends(recorded: SimpleNamespace, tmp_path: Path) -> None:
    """The client takes a limit by either name, and sends at most four stop sequences."""

    def change(sample: dict[str, Any], _: int) -> None:
        _request(sample)["arg_1"] = {"until": ["a", "b", "c", "d", "e"], "max_tokens": 32}

    run = change_samples(recorded.run, tmp_path / "run", change)
    pack = prepare(tmp_path / "pack", "recorded", evals_dataset=str(run), template_dir=str(recorded.templates))
    request = next(build_requests(Evaluator(pack), "gsm8k", None))
    assert (request.stop, request.max_tokens, request.settings) == (("a", "b", "c", "d"), 32, {})
