"""`meta-eval run` with backend `chat`: resume, shards, canary, limits and costs come from the loop of every run."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chat_server import Body, ChatServer, Reply, completion
from command import cli
from packs import some_templates
from shared import once

from meta_eval import report
from meta_eval.harness.lm_eval_run import read_run

TASK, BASE = "meta_mmlu_pro_instruct", "meta_mmlu_pretrain"
KEY = "s3cret-key-of-an-endpoint"


def answer(body: Body) -> Body:
    digest = hashlib.sha256(json.dumps(body["messages"]).encode()).digest()
    return completion(f"The best answer is {'ABCD'[digest[0] % 4]}.", prompt_tokens=1000)


SETTINGS = {
    "model_name": "tiny", "evals_dataset": "sample", "tasks": TASK, "backend": "chat", "api_key_env": "MY_KEY",
    "concurrency": 4, "max_model_len": 65536, "price_per_million_tokens": {"prompt": 1, "completion": 10},
}  # fmt: skip


def run(server: ChatServer, folder: Path, *words: str, **keys: Any) -> Any:
    settings = {**SETTINGS, "base_url": server.url, **keys}
    (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return cli("run", "--no-report", "--json", *words, cwd=folder, MY_KEY=KEY)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A folder with templates and no pack."""
    some_templates(tmp_path, "mmlu_pro", "mmlu", "bbh")
    return tmp_path


@pytest.fixture
def prepared(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with templates and the pack of these settings."""

    def make(folder: Path) -> None:
        some_templates(folder, "mmlu_pro", "mmlu", "bbh")
        settings = {**SETTINGS, "base_url": "http://127.0.0.1:9/v1"}
        (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
        done = cli("prepare", cwd=folder)
        assert done.returncode == 0, done.stderr

    return Path(shutil.copytree(once(tmp_path_factory, "asked_as_chat", make), tmp_path / "place"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._FIRST", 0.01)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))


def test_a_run_resumes_costs_what_its_tokens_cost_and_keeps_no_key(empty: Path) -> None:
    answered: Counter[str] = Counter()
    number = 0

    def reply(body: Body) -> Reply | Body:
        nonlocal number
        number += 1
        if number == 5:
            return Reply({"error": {"message": "Insufficient credits"}}, 402)
        answered[json.dumps(body["messages"])] += 1
        return answer(body)

    with ChatServer(reply) as server:
        stopped = run(server, empty, "--no-canary", "--no-endpoint-check", concurrency=1)
        assert stopped.returncode == 2 and "answers 402" in stopped.stderr
        done = run(server, empty, "--no-canary", "--no-endpoint-check", concurrency=1)
        assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert (output["failed"], set(answered.values())) == (0, {1})
    assert output["asked"] == len(answered) - 4, "four were kept"
    assert all(body["messages"][0]["role"] in ("system", "user") for body in server.bodies)
    cost = read_run([Path(empty, output["results"])]).tasks[TASK].provenance.cost
    assert cost == pytest.approx(len(answered) * (1000 * 1 + 3 * 10) / 1e6)
    files = [path for path in empty.rglob("*") if path.is_file()]
    assert files and not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in stopped.stderr + done.stderr + done.stdout


@pytest.mark.parametrize("set_in", ["the file", "--set"])
def test_a_key_in_the_place_of_its_variable_is_refused_and_not_repeated(prepared: Path, set_in: str) -> None:
    with ChatServer(answer) as server:
        words = ("--set", "api_key_env=MyPlain-Secret-Key") if set_in == "--set" else ()
        done = run(server, prepared, *words, api_key_env="MY_KEY" if words else "MyPlain-Secret-Key")
    assert done.returncode == 2 and "never the key itself" in done.stderr
    assert "Secret" not in done.stderr


def test_shards_ask_each_request_once_and_are_graded_together(prepared: Path) -> None:
    alone = ("--no-canary", "--no-endpoint-check")
    with ChatServer(answer) as server:
        for shard in ("0/2", "1/2"):
            assert run(server, prepared, *alone, "--shard", shard).returncode == 0
        done = run(server, prepared, *alone)
    assert json.loads(done.stdout)["asked"] == 0
    assert set(Counter(json.dumps(body["messages"]) for body in server.bodies).values()) == {1}


def test_the_canary_stops_an_endpoint_that_says_nothing(prepared: Path) -> None:
    with ChatServer(lambda _: completion("")) as server:
        done = run(server, prepared)
    assert done.returncode == 2 and "canary" in done.stderr


def test_what_the_check_of_the_endpoint_found_is_on_the_report(prepared: Path) -> None:
    """This one ignores stop texts, does not know `seed`, and says so before any doc; a second run keeps the note."""

    def reply(body: Body) -> Reply | Body:
        if "seed" in body:
            return Reply({"error": {"message": "Unknown parameter: 'seed'"}}, 400)
        return answer(body)

    with ChatServer(reply) as server:
        first, again = run(server, prepared), run(server, prepared)
    assert (first.returncode, json.loads(again.stdout)["asked"]) == (0, 0), first.stderr
    assert "stop: it writes on after the stop text" in first.stderr
    made = report(Path(prepared, json.loads(again.stdout)["results"]), pack=prepared / "work_dir")
    shown = dict(made.runs[0].provenance)["endpoint"]
    assert "stop: it writes on" in shown and "seed is not accepted, and was left out" in shown
    (alarm,) = [alarm for alarm in made.alarms if alarm.kind == "endpoint"]
    (task,) = alarm.tasks
    assert "; seed is not accepted, and was left out" in str(task.note) and not task.veto


def test_the_endpoint_is_checked_without_a_canary(prepared: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, prepared, "--no-canary", limit=2)
        asked = len(server.bodies)
        quiet = run(server, prepared, "--no-canary", "--no-endpoint-check", limit=2, output_path="other")
    assert "stop: it writes on after the stop text" in done.stderr
    assert quiet.returncode == 0 and "stop text" not in quiet.stderr and len(server.bodies) == asked + 2


def test_prompts_of_a_base_model_are_left_out_with_the_reason(empty: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, empty, "--no-canary", tasks=f"{TASK},meta_bbh,{BASE}")
    left_out = json.loads(done.stdout)["left_out"]
    assert "how likely choices are" in left_out[BASE]
    assert "base model" in left_out["meta_bbh"]


def test_a_run_stops_when_it_is_decided(prepared: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, prepared, "--no-canary", "--stop-when-decided", margin=50)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failed"] == 0


def test_a_key_variable_that_is_not_set_is_said_before_a_pack_is_made(empty: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, empty, api_key_env="NO_SUCH_KEY")
        assert not server.bodies
    assert done.returncode == 2 and "the environment variable NO_SUCH_KEY: is not set" in done.stderr
    assert not (empty / "work_dir").exists()


def test_after_failures_alone_the_error_is_theirs(prepared: Path) -> None:
    with ChatServer(lambda _: Reply({"error": {"message": "no such deployment"}}, 400)) as server:
        done = run(server, prepared, "--no-canary", limit=2)
    assert done.returncode == 2
    assert "every request failed" in done.stderr and "no such deployment" in done.stderr.splitlines()[-1]
    assert "Ask the model" not in done.stderr and "rerun the same command" in done.stderr


def test_a_streamed_answer_that_differs_is_said_so(prepared: Path) -> None:
    def reply(body: Body) -> Reply | Body:
        if body.get("stream"):
            return completion("Something else.")
        return answer(body)

    with ChatServer(reply) as server:
        done = run(server, prepared)
    assert "streamed: a streamed answer is another than" in done.stderr and "not so" not in done.stderr


def test_a_limit_of_the_endpoint_is_said_once_for_all_tasks(empty: Path) -> None:
    """Two tasks of a run have the endpoint's notes in common."""

    def reply(_: Body) -> Body:
        return completion("The best", "length", prompt_tokens=1000)

    with ChatServer(reply) as server:
        done = run(server, empty, "--no-canary", tasks=f"{TASK},meta_mmlu_instruct")
    shown = cli("report", json.loads(done.stdout)["results"], "--pack", "work_dir", cwd=empty)
    text = " ".join(shown.stdout.split())
    assert text.count("an answer was cut before its limit") == 1
    assert "remove that limit" in text and "With a higher limit of tokens" not in text


def test_https_where_nobody_speaks_tls_is_told_to_try_http(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers without TLS wait for the rest of what they take for a request."""
    monkeypatch.setattr("meta_eval.ask.transport._TO_CONNECT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent, ChatServer(answer) as server:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1"
        done = run(server, prepared, base_url=url)
    assert done.returncode == 2 and "the port is open, and no TLS came" in done.stderr and "try http://" in done.stderr
    assert "refused" not in done.stderr


def test_a_context_that_is_too_short_names_what_would_help(prepared: Path) -> None:
    with ChatServer(answer) as server:
        server.models = Reply({"data": [{"id": "tiny", "max_model_len": 1024}]})
        served = run(server, prepared)
        prepared = run(server, prepared, max_model_len=1024)
    assert (
        "set max_model_len to 1024: tasks with longer prompts and answers (max_gen_toks) are then left" in served.stderr
    )
    assert f"leave the task out (tasks: …,-{TASK}), or lower max_gen_toks in its template" in prepared.stderr


def test_a_credential_in_the_address_is_told_where_it_belongs(prepared: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, prepared, base_url=server.url.replace("://", "://me:Plain-Secret-9@"))
    assert done.returncode == 2 and "with api_key_env" in done.stderr
    assert "HF_TOKEN" not in done.stderr and "Secret" not in done.stderr


def test_the_page_names_the_engine_as_the_servers_own_word(prepared: Path) -> None:
    with ChatServer(answer) as server:
        done = run(server, prepared, limit=2)
    made = report(Path(prepared, json.loads(done.stdout)["results"]), pack=prepared / "work_dir")
    facts = dict(made.runs[0].provenance)
    assert "backend" not in facts and facts["engine"] == "fake, by its own name"


def test_why_requests_were_sent_again_is_counted_by_kind_on_both_and_loses_nothing(prepared: Path) -> None:
    faults = iter([
        Reply({"error": {"message": "overloaded"}}, 503), Reply({"error": {"message": "overloaded"}}, 503),
        Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0.01"}), Reply(completion("A" * 99), cut=True),
        Reply(b"data: {\"choices\": []}\n\n", headers={"Content-Type": "text/event-stream"}),
    ])  # fmt: skip
    with ChatServer(lambda body: next(faults, None) or answer(body)) as server:
        done = run(server, prepared, "--no-canary", "--no-endpoint-check", concurrency=1, stream=True)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    kinds = {"429": 1, "503": 2, "cut stream": 1, "half a body": 1}
    assert (output["failed"], output["retries"]) == (0, kinds)
    words = "sent again 5 times, which changes no score: 429 (1), 503 (2), cut stream (1), half a body (1)"
    assert f"requests: {words}" in " ".join(done.stderr.split())
    judged = report(prepared / output["results"], pack=prepared / "work_dir")
    assert dict(judged.runs[0].provenance)["requests"] == words
    assert not any("endpoint" in alarm.kind for alarm in judged.alarms)
