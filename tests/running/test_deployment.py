"""An answer counts only for the deployment that gave it, and for the model that it names."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from chat_server import Body, ChatServer, completion
from command import cli
from fake_server import FakeServer

from meta_eval import report
from meta_eval.base.hashing import hash_address

pytestmark = [pytest.mark.plugin("chat"), pytest.mark.plugin("meta")]

SETTINGS = {
    "model_name": "tiny", "evals_dataset": "sample", "tasks": "meta_gpqa_cot", "backend": "chat", "concurrency": 4,
    "max_model_len": 65536, "retries": 0, "limit": 6,
}  # fmt: skip


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `meta-eval run` would prepare, whatever server it asks."""
    place = tmp_path_factory.mktemp("prepared")
    (place / "eval_config.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    assert cli("prepare", cwd=place).returncode == 0
    return place / "work_dir"


@pytest.fixture
def place(pack: Path, tmp_path: Path) -> Path:
    """A folder with the pack, and nothing answered."""
    shutil.copytree(pack, tmp_path / "work_dir")
    return tmp_path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._FIRST", 0.01)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))


def answer(_: Body, **fields: Any) -> Body:
    return completion("The best answer is A.", **fields)


def run(folder: Path, *urls: str, words: tuple[str, ...] = (), **keys: Any) -> Any:
    settings = {**SETTINGS, "base_url": list(urls), **keys}
    (folder / "eval_config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return cli("run", "--no-report", "--no-canary", "--json", *words, cwd=folder)


def asked(done: Any) -> int:
    assert done.returncode == 0, done.stderr
    number: int = json.loads(done.stdout)["asked"]
    return number


def read_lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("**/answers/*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_another_address_is_refused_with_both_ways_on(place: Path) -> None:
    with ChatServer(answer) as a, ChatServer(answer) as b:
        everything = asked(run(place, a.url))
        assert asked(run(place, f"{a.url}/chat/completions")) == 0, "the same address resumes"
        other = run(place, b.url)
        assert (other.returncode, other.stdout, b.bodies) == (2, "", [])
        assert f"another address than {b.url}" in other.stderr
        assert "--set output_path=" in other.stderr and "--same-deployment" in other.stderr
        assert [line[:17] for line in other.stderr.splitlines()] == ["looking for what ", "error: base_url: "]
        assert asked(run(place, b.url, words=("--set", "output_path=results_b"))) == everything
        assert asked(run(place, b.url, words=("--same-deployment",))) == 0
        assert asked(run(place, b.url)) == 0, "it is known now"
        assert asked(run(place, b.url, words=("--grade-only",))) == 0


def test_addresses_listed_together_are_replicas(place: Path) -> None:
    with ChatServer(answer) as a, ChatServer(answer) as b:
        assert asked(run(place, a.url, b.url))
        assert asked(run(place, b.url)) == 0
        assert asked(run(place, a.url)) == 0


def test_no_answers_bind_to_no_address(place: Path) -> None:
    with ChatServer(lambda _: completion(None, "odd")) as a, ChatServer(answer) as b:
        assert run(place, a.url).returncode
        assert asked(run(place, b.url))


def test_shards_at_several_addresses_are_one_deployment_if_all_say_so(place: Path) -> None:
    with ChatServer(answer) as a, ChatServer(answer) as b:
        assert run(place, a.url, words=("--shard", "0/2")).returncode == 0
        assert run(place, b.url, words=("--shard", "1/2")).returncode == 2
        assert run(place, b.url, words=("--shard", "1/2", "--same-deployment")).returncode == 0
        done = run(place, a.url)
    assert asked(done) == 0
    made = report(place / json.loads(done.stdout)["results"], pack=place / "work_dir")
    assert "several endpoints" not in {alarm.kind for alarm in made.alarms}
    assert str(dict(made.runs[0].provenance)["answered by"]).count(", ") == 1


def test_files_hold_no_address_and_a_password_is_not_repeated(place: Path) -> None:
    with ChatServer(answer) as a:
        asked(run(place, a.url))
    lines = read_lines(place)
    assert {line["endpoint"] for line in lines if "text" in line} == {hash_address(a.url)}
    assert a.url.split("/")[2] not in json.dumps(lines)
    other = run(place, "http://me:hunter2@127.0.0.1:9/v1")
    assert other.returncode == 2 and "hunter2" not in other.stderr


@pytest.mark.parametrize(
    ("url", "other", "same"),
    [
        ("http://Host:80", "http://host/v1/", True),
        ("https://host/v1", "https://user:key@host:443/v1/chat/completions", True),
        ("http://localhost:8000/v1", "http://127.0.0.1:8000", True),
        ("http://[::1]:8000/v1", "http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1", False),
        ("http://host/v1", "https://host/v1", False),
        ("https://host/a/v1", "https://host/b/v1", False),
        ("https://a.host/v1", "https://b.host/v1", False),
    ],
)
def test_spellings_of_one_address_are_one(url: str, other: str, same: bool) -> None:
    assert (hash_address(url) == hash_address(other)) is same


@pytest.mark.parametrize(
    ("names", "words", "veto"),
    [
        (["tiny"], None, None),
        (["TINY", "tiny:latest", None], None, None),
        (["tiny-2026-01-01"], "all name tiny-2026-01-01, and tiny was requested", False),
        (["tiny", "other"], "they name", True),
        (["tiny-2026-01-01", "tiny-2026-02-01"], "they name", True),
        ([f"tiny-{number}" for number in range(6)], "and 3 more", True),
    ],
)  # fmt: skip
def test_the_model_that_answers_name_is_kept_and_counted(
    place: Path, names: list[str | None], words: str | None, veto: bool | None
) -> None:
    numbers = iter(range(10**6))
    with ChatServer(lambda body: answer(body, model=names[next(numbers) % len(names)])) as server:
        done = run(place, server.url)
    assert asked(done)
    kept = {line.get("response_model") for line in read_lines(place) if "text" in line}
    assert kept == ({"tiny"} if words is None else set(names)) | ({None} if None in names else set())
    made = report(place / json.loads(done.stdout)["results"], pack=place / "work_dir")
    alarms = [task for alarm in made.alarms if alarm.kind == "another model" for task in alarm.tasks]
    assert [(words in str(task.note), task.veto) for task in alarms if words] == (
        [] if words is None else [(True, veto)]
    )
    assert done.stderr.count("an answer names") == (words is not None), "once"


def test_a_completions_server_that_names_another_model_is_said(place: Path) -> None:
    with FakeServer() as server:
        server.model = "tiny"
        done = run(place, server.url, backend="server")
    assert asked(done)
    assert {line["endpoint"] for line in read_lines(place) if "text" in line} == {hash_address(server.url)}


def test_a_model_that_is_no_name_stops_nothing(place: Path) -> None:
    odd = itertools.cycle([7, None, [], {"a": 1}, "", "  ", "a\nb\u202e" + "x" * 5000])
    with ChatServer(lambda body: answer(body, model=next(odd))) as server:
        done = run(place, server.url)
    assert asked(done)
    kept = {line.get("response_model") for line in read_lines(place) if "text" in line}
    assert {name is None or (len(name) <= 200 and name.isprintable()) for name in kept} == {True}
