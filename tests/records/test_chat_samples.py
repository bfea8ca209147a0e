"""Runs that stock lm-eval recorded through a chat endpoint are asked again with the very same bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chat_server import ChatServer
from command import cli
from packs import prepare, read_docs
from places import REPOSITORY
from recorded_runs import own_gsm8k, record
from stock_chat import answer_question, open_stock_client, take_bodies

from meta_eval import verify
from meta_eval.ask.request import read_conversation
from meta_eval.ask.request_kinds import build_requests
from meta_eval.base.errors import UserError
from meta_eval.doctor.environment_checks import describe_install
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.lm_eval_run import read_newest
from meta_eval.harness.output_index import index_outputs
from meta_eval.pack.manifest import read_manifest

# By its name, and not as "recorded": for a group, all YAML of the installed lm-eval is read.
TASK = "gsm8k"
WAYS: dict[str, dict[str, Any]] = {
    "multiturn": {"fewshot_as_multiturn": True, "system_instruction": "Be brief."},
    "one turn": {"fewshot_as_multiturn": False},
}


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer(answer_question) as opened:
        yield opened


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_gsm8k(tmp_path_factory.mktemp("tasks") / "templates")


@pytest.fixture(scope="module", params=sorted(WAYS))
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: ChatServer, templates: Path
) -> SimpleNamespace:
    """A run of stock lm-eval, what it asked, and the pack of it."""
    folder = tmp_path_factory.mktemp("recorded")
    take_bodies(server)
    run = record(
        templates, folder / "run", ["gsm8k"], model=open_stock_client(server), chat=True, num_fewshot=2,
        **WAYS[request.param],
    )  # fmt: skip
    bodies = take_bodies(server)
    pack = prepare(folder / "pack", TASK, evals_dataset=str(run), template_dir=str(templates))
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


def test_stock_lm_eval_asks_the_same_bodies_again(
    recorded: SimpleNamespace, server: ChatServer, tmp_path: Path
) -> None:
    take_bodies(server)
    again = record(recorded.pack, tmp_path / "again", ["gsm8k"], model=open_stock_client(server), chat=True)
    assert take_bodies(server) == recorded.bodies
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


@pytest.mark.plugin("chat")
def test_tasks_of_lm_eval_are_made_of_the_bodies_that_stock_lm_eval_asks(
    recorded: SimpleNamespace, server: ChatServer, tmp_path: Path
) -> None:
    keys = {"evals_dataset": "lm-eval", "template_dir": str(recorded.templates), "backend": "chat"}
    pack = prepare(tmp_path / "pack", "gsm8k@2", **keys, **WAYS[recorded.way])
    take_bodies(server)
    record(pack, tmp_path / "run", ["gsm8k"], model=open_stock_client(server), chat=True)
    assert take_bodies(server) == recorded.bodies
    (entry,) = read_manifest(pack).tasks.values()
    assert (entry.asked_as, entry.record and entry.record.chat_template) == ("chat", False)


@pytest.mark.plugin("chat")
def test_a_run_through_chat_is_a_baseline_of_the_same_prompts(recorded: SimpleNamespace, tmp_path: Path) -> None:
    keys = {"evals_dataset": "lm-eval", "template_dir": str(recorded.templates), "backend": "chat"}
    pack = prepare(tmp_path / "pack", "gsm8k@2", baseline=str(recorded.run), **keys, **WAYS[recorded.way])
    (baseline,) = read_manifest(pack).tasks["gsm8k"].baseline
    assert (baseline.docs, baseline.docs_with_other_prompt) == (8, 0)


@pytest.mark.plugin("chat")
def test_an_answer_that_a_task_begins_is_counted_and_sent_as_stock_lm_eval_sends_it(
    server: ChatServer, tmp_path: Path
) -> None:
    templates = own_gsm8k(tmp_path / "templates", gen_prefix="It is")
    take_bodies(server)
    run = record(templates, tmp_path / "run", ["gsm8k"], model=open_stock_client(server), chat=True, num_fewshot=0)
    bodies = take_bodies(server)
    assert json.loads(bodies[0])["messages"][-1]["content"].strip() == "It is"
    for name, keys in {"lm-eval": {"backend": "chat", "tasks": "gsm8k@0"}, str(run): {"tasks": TASK}}.items():
        pack = prepare(tmp_path / "pack", evals_dataset=name, template_dir=str(templates), **keys)
        assert read_manifest(pack).tasks["gsm8k"].warnings["begun_answer"] == 8
        record(pack, tmp_path / "again", ["gsm8k"], model=open_stock_client(server), chat=True)
        assert take_bodies(server) == bodies
        request = next(build_requests(Evaluator(pack), "gsm8k", None))
        assert "continue_final_message" not in read_conversation(request)
        assert read_conversation(request, can_continue=True)["continue_final_message"] is True


@pytest.mark.plugin("chat")
def test_a_task_of_likelihoods_cannot_be_asked_as_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    templates = REPOSITORY / "tools" / "lm_eval_tasks"
    monkeypatch.chdir(templates)  # where the YAML has its docs
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "backend": "chat"}
    with pytest.raises(UserError, match="compares the likelihoods of texts, which chat endpoints do not give"):
        prepare(tmp_path / "pack", "tiny_sums", **keys)


@pytest.mark.plugin("chat")
def test_the_backend_chat_asks_the_same_bodies(recorded: SimpleNamespace, server: ChatServer, tmp_path: Path) -> None:
    """But for the seed, which decides nothing where answers are greedy."""
    settings = {
        "model_name": "org/chat", "evals_dataset": str(recorded.run), "tasks": TASK, "backend": "chat",
        "base_url": server.url, "template_dir": str(recorded.templates), "max_model_len": 4096,
    }  # fmt: skip
    (tmp_path / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    take_bodies(server)
    done = cli("run", "--no-canary", "--no-endpoint-check", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    unseeded = [{name: value for name, value in json.loads(body).items() if name != "seed"} for body in recorded.bodies]
    assert take_bodies(server) == [json.dumps(body, sort_keys=True) for body in unseeded]


@pytest.mark.plugin("chat")
def test_the_command_is_that_of_stock_lm_eval(recorded: SimpleNamespace, tmp_path: Path) -> None:
    keys = {"evals_dataset": str(recorded.run), "template_dir": str(recorded.templates), "backend": "chat"}
    pack = prepare(
        tmp_path / "pack", TASK, base_url="http://127.0.0.1:9/v1", concurrency=4,
        model_args={"reasoning_effort": "low", "top_p": 0.5}, **keys,
    )  # fmt: skip
    command = list(read_manifest(pack).command)
    assert describe_install(pack, read_manifest(pack)).startswith('pip install "lm-eval[api]>=')
    assert command[:3] == ["lm_eval", "--model", "local-chat-completions"]
    arguments = command[command.index("--model_args") + 1].split(",")
    assert {"model=my/model", "base_url=http://127.0.0.1:9/v1/chat/completions", "num_concurrent=4"} <= set(arguments)
    assert "--apply_chat_template" in command
    fields = json.loads(command[command.index("--gen_kwargs") + 1])
    assert fields == {"reasoning_effort": "low", "top_p": 0.5}


@pytest.mark.plugin("chat")
@pytest.mark.parametrize(
    ("tasks", "keys", "why"),
    [
        (TASK, {"model_args": {"continue_final_message": True}}, "cannot ask backend chat: ."),
        pytest.param(
            "meta_gpqa",
            {"evals_dataset": "sample"},
            "there is no lm_eval command: 1 of 1 tasks ask texts, and only meta-eval asks them with backend chat",
            marks=pytest.mark.plugin("meta"),
        ),
    ],
)
def test_where_there_is_no_command_the_reason_is_said(
    recorded: SimpleNamespace, tmp_path: Path, tasks: str, keys: dict[str, Any], why: str
) -> None:
    given = {"evals_dataset": str(recorded.run), "template_dir": str(recorded.templates), "backend": "chat"}
    if tasks != TASK:
        del given["template_dir"]
    manifest = read_manifest(prepare(tmp_path / "pack", tasks, **{**given, **keys}))
    assert manifest.command == ()
    assert re.search(why, manifest.no_command)


@pytest.mark.plugin("chat")
def test_other_backends_have_no_command_for_chat_messages(recorded: SimpleNamespace) -> None:
    manifest = read_manifest(recorded.pack)
    assert (manifest.run_settings.backend, manifest.command) == ("vllm", ())
    why = "1 of 1 tasks ask chat messages, and backend vllm is asked with texts: set `backend: chat`"
    assert manifest.no_command == why


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
        prepare(tmp_path / "pack", TASK, evals_dataset=str(run), template_dir=str(recorded.templates))


def test_what_stock_lm_eval_would_have_sent_is_what_the_pack_sends(recorded: SimpleNamespace, tmp_path: Path) -> None:
    """The client takes a limit by either name, and sends at most four stop sequences."""

    def change(sample: dict[str, Any], _: int) -> None:
        _request(sample)["arg_1"] = {"until": ["a", "b", "c", "d", "e"], "max_tokens": 64, "max_completion_tokens": 32}
        sample["resps"] = [[None]]

    run = change_samples(recorded.run, tmp_path / "run", change)
    pack = prepare(tmp_path / "pack", TASK, evals_dataset=str(run), template_dir=str(recorded.templates))
    request = next(build_requests(Evaluator(pack), "gsm8k", None))
    assert (request.stop, request.max_tokens, request.settings) == (("a", "b", "c", "d"), 32, {})
    assert {doc["recorded_output"] for doc in read_docs(pack, "gsm8k")} == {""}
