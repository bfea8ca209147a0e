"""The record in a model's place: as a backend, and as a server that a reader starts."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import cli
from forked import started
from own_record import CHOICES, DOCS, TEXTS, config_of, record_run

from meta_eval import run
from meta_eval.plugins.stand_in.record import SPOILED, is_spoiled
from meta_eval.plugins.stand_in.stand_in_server import StandIn, read_texts


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    keys = {"model_name": "my/model", "backend": "recorded", "margin": 50.0}
    (tmp_path / "eval_config.yaml").write_text(
        json.dumps(config_of(record_run(tmp_path_factory), **keys)), encoding="utf-8"
    )
    return tmp_path


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    keys = {"model_name": "my/model", "backend": "recorded"}
    (folder / "eval_config.yaml").write_text(
        json.dumps(config_of(record_run(tmp_path_factory), **keys)), encoding="utf-8"
    )
    assert cli("prepare", cwd=folder).returncode == 0
    return folder / "work_dir"


def report(place: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(cli("report", "eval_results", "--pack", "work_dir", "--json", cwd=place).stdout)
    return tree


def test_the_record_answers_texts_and_choices_and_no_ship_follows(place: Path) -> None:
    done = cli("run", "--json", cwd=place)
    asked = json.loads(done.stdout)
    assert (done.returncode, asked["asked"], asked["failed"]) == (0, sum(DOCS.values()), 0), done.stderr
    judged = report(place)
    assert {task["name"]: task["drop"]["value"] for task in judged["tasks"]} == {TEXTS: 0.0, CHOICES: 0.0}
    assert judged["decision"]["outcome"] == "UNDECIDED"
    assert "no model" in {alarm["kind"] for alarm in judged["alarms"]}


def test_a_share_of_docs_is_spoiled_and_always_the_same_docs(place: Path) -> None:
    assert cli("run", "--set", "model_args.spoil=1", "--no-canary", cwd=place).returncode == 0
    lines = [
        json.loads(line)
        for path in sorted((place / "eval_results" / "answers").glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    texts = [line["text"] for line in lines if line.get("id", "").startswith(TEXTS)]
    assert texts == [SPOILED] * DOCS[TEXTS]
    # A spoiled text is never right. Choices move on by one, so that the likeliest was another before.
    (task,) = (task for task in report(place)["tasks"] if task["name"] == TEXTS)
    assert task["drop"]["candidate"] == 0
    half = {doc for doc in range(2000) if is_spoiled("t", doc, 0.5)}
    assert 900 < len(half) < 1100
    assert {doc for doc in range(2000) if is_spoiled("t", doc, 0.1)} < half


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("model_args.spoil=2", "not a share from 0 to 1"), ("model_args.spoil=-0.1", "not a share from 0 to 1"),
        ("model_args.spoil=nan", "not a share from 0 to 1"), ("model_args.spoil=much", "not a share from 0 to 1"),
        ("model_args.spoil=true", "not a share from 0 to 1"), ("model_args.spol=0.1", "takes spoil alone"),
        ("tokenizer=x/y", "tokenizer"),
    ],
)  # fmt: skip
def test_what_it_does_not_take_is_one_message(place: Path, setting: str, why: str) -> None:
    done = cli("prepare", "--set", setting, cwd=place)
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_lm_eval_has_no_such_model_and_prepare_says_what_follows(place: Path) -> None:
    done = cli("prepare", cwd=place)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no model is asked" in done.stderr
    assert "next: meta-eval run" in done.stderr


def test_what_verify_prints_as_the_next_command_runs_the_pack_whatever_the_configuration_says(place: Path) -> None:
    assert cli("prepare", "--set", "margin=40", cwd=place).returncode == 0
    before = (place / "work_dir/manifest.json").read_bytes()
    verified = cli("verify", cwd=place)
    _, *words = shlex.split(re.findall("next: `(.+)`", verified.stderr)[0])
    done = cli(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "prepared with different settings" not in done.stderr
    assert (place / "work_dir/manifest.json").read_bytes() == before


def test_the_api_runs_a_pack_without_a_configuration(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(pack=prepared)
    assert (ran.pack, ran.asked) == (prepared, sum(DOCS.values()))
    again = run(str(prepared))  # as `meta-eval run PACK`
    assert (again.pack, again.asked, again.before) == (prepared, 0, ran.asked)


@pytest.mark.parametrize(
    "setting",
    ["limit=2", "margin=3", "max_model_len=9999", "tasks=x", "evals_dataset=sample", "model_name=[a, b]", "work_dir=x"],
)
def test_a_named_pack_takes_no_setting_that_needs_another_pack(prepared: Path, tmp_path: Path, setting: str) -> None:
    done = cli("run", prepared, "--set", setting, "--set", f"output_path={tmp_path}")
    assert done.returncode == 2
    assert "Leave PACK out, and a pack of other settings is prepared" in done.stderr


# The server


@pytest.fixture(scope="module")
def server(prepared: Path) -> Iterator[StandIn]:
    model, texts = read_texts(prepared, 0.0)
    with StandIn(model, texts, 0) as there:
        threading.Thread(target=there.serve, daemon=True).start()
        yield there


def test_its_thread_ends_with_the_block(prepared: Path) -> None:
    """A thread that goes on at a closed socket never waits again."""
    with StandIn(*read_texts(prepared, 0.0), 0) as there:
        thread = threading.Thread(target=there.serve, daemon=True)
        thread.start()
        assert send(there, "GET", "/v1/models", b"")[0] == 200
    thread.join(5)
    assert not thread.is_alive()


def send(server: StandIn, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", int(server.url.split(":")[2].split("/")[0]), timeout=10)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    tree = json.loads(answer.read())
    connection.close()
    return answer.status, tree


def test_a_run_asks_it_as_any_server(place: Path, server: StandIn) -> None:
    done = cli(
        "run", "--json", "--tasks", TEXTS, "--set", "backend=server", "--set", f"base_url={server.url}", cwd=place
    )
    assert done.returncode == 0, done.stderr
    asked = json.loads(done.stdout)
    assert (asked["asked"], asked["failed"]) == (DOCS[TEXTS], 0)
    judged = report(place)
    assert {task["name"]: task["drop"]["value"] for task in judged["tasks"]} == {TEXTS: 0.0}
    assert "no model" in {alarm["kind"] for alarm in judged["alarms"]}
    assert judged["decision"]["outcome"] == "UNDECIDED"


def test_it_names_the_model_of_the_pack(server: StandIn) -> None:
    status, tree = send(server, "GET", "/v1/models")
    assert (status, [card["id"] for card in tree["data"]]) == (200, ["my/model"])


NESTED = b"[" * 100_000
BODIES = [
    (b"", 400), (b"{", 400), (b"\xff", 400), (b"null", 422), (b"[]", 422), (b"1", 422), (b'"x"', 422), (b"{}", 422),
    (b'{"prompt": null}', 422), (b'{"prompt": 1}', 422), (b'{"prompt": []}', 422), (b'{"prompt": [1, 2]}', 422),
    (b'{"prompt": ["a", 1]}', 422), (b'{"prompt": {"a": 1}}', 422), (b'{"prompt": [[1]]}', 422), (NESTED, 400),
    (b'{"prompt": ""}', 404), (b'{"prompt": "x"}', 404), (b'{"prompt": "\\ud800"}', 404), (b'{"prompt": ["x"]}', 404),
    (b'{"prompt": "x", "echo": true}', 400), (b'{"prompt": "x", "logprobs": 1}', 400),
    (b'{"prompt": "x", "prompt_logprobs": 5}', 400), (b'{"prompt": NaN}', 422), (b'{"prompt": true}', 422),
    (b'{"prompt": "' + b"x" * 1_000_000 + b'"}', 404), (b'{"prompt": ' + b"9" * 10_000 + b"}", 400),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), BODIES, ids=range(len(BODIES)))
def test_any_other_body_is_refused_in_words(server: StandIn, body: bytes, status: int) -> None:
    result, tree = send(server, "POST", "/v1/completions", body)
    assert (result, set(tree)) == (status, {"error"})
    assert tree["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 404), ("GET", "/v1", {}, 404), ("GET", "/v1/../etc/passwd", {}, 404), ("GET", "/health", {}, 404),
        ("POST", "/v1/chat/completions", {}, 404), ("POST", "/", {}, 404), ("POST", "/v1/models", {}, 404),
        ("POST", "/v1/completions", {"Content_Length": "-1"}, 413), ("POST", "/v1/completions", {"Content_Length": "x"}, 413),
        ("POST", "/v1/completions", {"Content_Length": str(10**30)}, 413), ("POST", "/v1/completions", {"Content_Length": "1e9"}, 413),
    ],
)  # fmt: skip
def test_other_pages_and_lengths_are_refused(
    server: StandIn, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert send(server, method, path, b"{}" if method == "POST" else None, **headers)[0] == status


def test_docs_that_share_a_prompt_get_their_answers_in_turn() -> None:
    with StandIn("m", {"p": ["one", "two"]}, 0) as there:
        assert [there.find_text("p") for _ in range(3)] == ["one", "two", "one"]


def test_a_client_that_hangs_up_hurts_nobody(server: StandIn) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    for sent in (b"", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{", b"\x00\xff\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(sent)
    assert send(server, "GET", "/v1/models")[0] == 200


# The command


def test_it_serves_until_it_is_interrupted_and_the_next_command_works(prepared: Path, tmp_path: Path) -> None:
    one = started("stand-in", prepared, "--port", "0", "--spoil", "1")
    try:
        lines = iter(one.stderr.readline, "")
        address = next(found[1] for line in lines if (found := re.search(r"http://localhost:(\d+)/v1", line)))
        _, *words = shlex.split(next(lines).removeprefix("next: "))
        done = cli(*words, "--no-canary", "--tasks", TEXTS, "--set", f"output_path={tmp_path / 'results'}")
        connection = http.client.HTTPConnection("localhost", int(address), timeout=10)
        (prompt,) = [prompt for prompt in read_texts(prepared, 0.0)[1] if prompt.startswith("Question 3:")]
        connection.request("POST", "/v1/completions", json.dumps({"prompt": prompt}))
        assert json.loads(connection.getresponse().read())["choices"][0]["text"] == SPOILED
        one.send_signal(signal.SIGINT)
        out, error = one.communicate(timeout=20)
    finally:
        one.kill()
    assert done.returncode == 0, done.stderr
    assert (one.returncode, out) == (130, "")
    assert "Traceback" not in error


def test_it_listens_on_this_machine_alone(server: StandIn) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError, match=r".*"), socket.create_connection((address, port), timeout=2):
            pass


def test_a_port_that_is_taken_is_one_message(prepared: Path, server: StandIn) -> None:
    port = server.url.split(":")[2].split("/")[0]
    done = cli("stand-in", prepared, "--port", port)
    assert done.returncode == 2
    assert f"--port {port}: cannot be used" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["--spoil", "2"], ["--spoil", "-1"], ["--spoil", "x"], ["--port", "70000"], ["--port", "x"], ["--prot"]]
)  # fmt: skip
def test_wrong_options_are_one_message(prepared: Path, arguments: list[str]) -> None:
    done = cli("stand-in", prepared, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_no_pack_an_edited_pack_and_one_of_choices_alone_are_one_message_each(place: Path) -> None:
    assert cli("stand-in", place / "nowhere").returncode == 2
    assert cli("prepare", "--set", f"tasks={CHOICES}", cwd=place).returncode == 0
    done = cli("stand-in", place / "work_dir", "--port", "0")
    assert (done.returncode, "no task of it has recorded texts" in done.stderr) == (2, True), done.stderr
    shutil.copytree(place / "work_dir", place / "edited")
    (place / "edited" / f"{CHOICES}.yaml").open("a", encoding="utf-8").write("# mine\n")
    done = cli("stand-in", place / "edited", "--port", "0")
    assert (done.returncode, "edited" in done.stderr or "changed" in done.stderr) == (2, True), done.stderr
