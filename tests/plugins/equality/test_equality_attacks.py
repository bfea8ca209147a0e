"""equality: what is refused, endpoints that lie, keys, damaged and foreign files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Reply, completion
from command import cli
from fake_server import Body
from marks import few
from sampled_server import draw_answer, equality, sampled_server, write_answers, write_run

from meta_eval.base.errors import UserError
from meta_eval.plugins.equality.api import equality as call

A, B = "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v2"
PACK = ("--pack", "work_dir")


def check_error(done: Any, what: str) -> None:
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, done.stderr
    assert what in said
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([A], "B is missing"),
        ([A, ""], "names nothing"),
        (["  ", A], "names nothing"),
        ([A, "nowhere"], "is no address, and the other side is one"),
        (["ftp://x", A], "is no address, and the other side is one"),
        ([A, B, "--samples", "1"], "--samples"),
        ([A, B, "--samples", "many"], "--samples"),
        ([A, B, "--samples", "1000"], "--samples"),
        ([A, B, "--prompts", "0"], "--prompts"),
        ([A, B, "--prompts", "-3"], "--prompts"),
        ([A, B, "--max-tokens", "0"], "--max-tokens"),
        ([A, B, "--tasks", "nothing"], "nothing"),
        ([A, B, "--tasks", "-own_load"], "leaves out every task"),
        ([A, B, "--set", "no_such_key=1"], "no_such_key"),
        ([A, B, "--set-b", "no_such_key=1"], "no_such_key"),
        ([A, B, "--set-b", "model_name"], "model_name"),
        ([A, B, "--set", "api_key_env=NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE"),
        ([A, B, "--no-ask"], "no answer of A is there yet"),
        ([A, B], "does not answer"),
        ([A, B, "--set", "serve=true"], "does not answer"),
        (["http://", B], "base_url"),
        (["http://[::1", B], "http"),
        (["http://a b/v1", B], "http"),
        ([A, B, "--view", "odd"], "--view"),
        ([A, B, "--html", "no/such/x.html", "--view", "odd=x"], "odd"),
        ([A, B, "--sampels", "3"], "--samples"),
        pytest.param(
            [A, B, "--set", "backend=recorded", "--set", "tokenizer=null"], "asks no address", marks=pytest.mark.plugin("stand_in")
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_one_message(words: list[str], what: str, common_place: Path) -> None:
    check_error(cli("equality", *words, *PACK, cwd=common_place), what)


def test_no_pack_is_one_message(tmp_path: Path) -> None:
    check_error(cli("equality", A, B, "--pack", "nothing", cwd=tmp_path), "nothing")


def test_the_key_of_one_server_is_not_sent_to_another(common_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "sk-" + "a" * 40)
    monkeypatch.setenv("B_KEY", "sk-" + "b" * 40)
    with sampled_server() as a, sampled_server() as b:
        words = ("equality", a.url, b.url, *PACK, "--set", "api_key_env=A_KEY", "--prompts", "2", "--samples", "2")
        check_error(cli(*words, cwd=common_place), "--set-b api_key_env=NAME")
        assert not a.bodies and not b.bodies
        assert cli(*words, "--set-b", "api_key_env=B_KEY", cwd=common_place).returncode == 3


def refuse_all(number: int, _: Body) -> str | None:
    return "refused"


def empty(_: Body, answer: Body) -> Body:
    return {**answer, "choices": [{**answer["choices"][0], "text": ""}]}


def filtered(_: Body, answer: Body) -> Body:
    return {**answer, "choices": [{**answer["choices"][0], "text": None, "finish_reason": "content_filter"}]}


@pytest.mark.parametrize(
    ("changes", "codes", "what"),
    few([
        ({"spoil": lambda *_: {"choices": []}}, {2}, "does not answer: a response that is not a completion"),
        ({"spoil": lambda *_: {}}, {2}, "does not answer: a response that is not a completion"),
        ({"spoil": lambda *_: {"choices": [{"text": 7}]}}, {2}, "none of 16 requests was answered"),
        ({"faults": refuse_all}, {2}, "none of 16 requests was answered"),
        ({"spoil": empty}, {1, 3}, "undecided"),
        ({"spoil": filtered}, {1, 3}, "undecided"),
        ({"faults": lambda number, _: "refused" if number % 3 == 1 else None}, {3}, "failed; the first"),
        ({"faults": lambda number, _: "busy" if number % 5 == 1 else None, "retry_after": 0.01}, {3}, "p ="),
        ({"faults": lambda number, _: "half" if number % 9 == 1 else None}, {3}, "p ="),
        ({"draw": lambda *_: "always this"}, {3}, "a single text each"),
        ({"draw": lambda prompt, _: draw_answer(prompt, random.Random(prompt))}, {3}, "undecided"),
        ({"model": "someone-else"}, {2}, "serves someone-else"),
        ({"max_model_len": 16}, {2}, "contexts of 16 tokens"),
        ({"key": "secret"}, {2}, "answers 401"),
        ({"draw": lambda *_: "\ud800" * 20}, {3}, "a single text"),
        ({"draw": lambda prompt, rng: draw_answer(prompt, rng) * 4000}, {1, 3}, "p ="),
        ({"draw": lambda prompt, rng: "\0\x1b[2J" + draw_answer(prompt, rng)}, {1}, "different"),
    ], 2),
)  # fmt: skip
def test_an_endpoint_that_fails_or_lies(changes: dict[str, Any], codes: set[int], what: str, place: Path) -> None:
    with sampled_server() as a, sampled_server(**changes) as b:
        words = ("--prompts", "10", "--samples", "6", "--set", "retries=1")
        done = cli("equality", a.url, b.url, *PACK, *words, cwd=place)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in codes, said
    assert what in said
    assert "Traceback" not in said and "\x1b" not in done.stdout


def test_a_side_with_many_missing_answers_is_not_the_same(tmp_path: Path) -> None:
    lines = []
    for path, seed in ((tmp_path / "a.jsonl", 1), (tmp_path / "b.jsonl", 2)):
        write_answers(path, lambda prompt, rng: draw_answer(prompt, rng, first=0.97), seed, prompts=24, samples=16)
    lines = (tmp_path / "b.jsonl").read_text().splitlines()
    failed = [
        json.dumps({**{k: v for k, v in json.loads(x).items() if k != "text"}, "error": "no"}) for x in lines[::5]
    ]
    kept = [line for number, line in enumerate(lines) if number % 5]
    (tmp_path / "b.jsonl").write_text("\n".join(kept + failed) + "\n")
    done = cli("equality", "a.jsonl", "b.jsonl", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["outcome"] == "undecided", done.stdout


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
@pytest.mark.parametrize("form", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_with_the_key(form: int, chat_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-" + "q" * 40)
    with sampled_server() as other, ChatServer(lambda _: completion("x")) as a:
        with ChatServer(lambda _: Reply({}, form, {"Location": other.url})) as b:
            words = ("--set", "api_key_env=OWN_KEY", "--set-b", "api_key_env=OWN_KEY", "--output", str(form))
            done = cli("equality", a.url, b.url, *PACK, "--prompts", "2", "--samples", "2", *words, cwd=chat_place)
        assert not other.bodies
    check_error(done, f"answers {form}: it has moved")


def test_a_key_that_an_endpoint_repeats_is_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "q" * 40
    monkeypatch.setenv("OWN_KEY", key)
    words = ("--set", "api_key_env=OWN_KEY", "--set-b", "api_key_env=OWN_KEY", "--prompts", "3", "--samples", "3")
    with sampled_server(key=key) as a, sampled_server(lambda *_: f"key {key}", key=key) as b:
        done = cli("equality", a.url, b.url, *PACK, "--json", "--html", "page.html", *words, cwd=place)
    written = [path.read_text("utf-8", errors="replace") for path in place.rglob("*") if path.is_file()]
    assert done.returncode in (1, 3), done.stderr
    assert not any(key in text for text in (done.stdout, done.stderr, *written))


def test_answers_of_another_address_are_not_mixed(place: Path) -> None:
    words = ("--prompts", "3", "--samples", "3")
    with sampled_server() as a, sampled_server() as b, sampled_server() as c:
        equality(place, a, b, *words)
        check_error(cli("equality", a.url, c.url, *PACK, *words, cwd=place), "--output FOLDER")
        assert equality(place, a, c, *words, "--output", "own")["prompts"] == 3
        assert equality(place, a, c, *words, "--same-deployment")["prompts"] == 3


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_chat_endpoints_are_asked_with_messages(chat_place: Path) -> None:
    def reply(body: Body) -> Body:
        return completion(draw_answer(str(body["messages"]), random.Random(str(body["seed"]))))

    with ChatServer(reply) as a, ChatServer(reply) as b:
        done = cli("equality", a.url, b.url, *PACK, "--prompts", "6", "--samples", "5", "--json", cwd=chat_place)
    assert done.returncode == 3, done.stderr
    assert {(body["temperature"], body["max_tokens"]) for body in a.bodies} == {(1.0, 32)}


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for line in lines:
            change(line)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    return apply


@pytest.mark.parametrize(
    ("damage", "codes", "what"),
    [
        (lambda path: path.write_bytes(b""), {2}, "b.jsonl"),
        (lambda path: path.write_bytes(b"\x1f\x8b\x08rubbish"), {2}, "b.jsonl"),
        (lambda path: path.write_text("[]"), {2}, "b.jsonl"),
        (lambda path: path.unlink(), {2}, "b.jsonl"),
        (lambda path: (path.unlink(), path.mkdir()), {2}, "b.jsonl"),
        (edit(lambda line: line.pop("text")), {2}, "not an answer"),
        (edit(lambda line: line.update(text=7)), {2}, "text is 7"),
        (edit(lambda line: line.update(prompt_sha256="f" * 64)), {2}, "no prompt has two answers of both sides"),
        (edit(lambda line: line.update(id=line["id"].rpartition("/")[0])), {2}, "two answers that are not alike"),
        (edit(lambda line: line.update(id=line["id"][:-1] + "0", request_sha256=line["text"] * 9)), {2}, "is answered twice"),
        (edit(lambda line: line.update(id=line["id"] + "9" * 5000)), {2}, "b.jsonl"),
        (edit(lambda line: line.update(id="other/" + line["id"].partition("/")[2])), {2}, "no prompt has two answers"),
        (lambda path: write_answers(path, draw_answer, 2, samples=1), {2}, "holds one answer to each prompt"),
        (lambda path: path.write_text(path.read_text() + '{"id": "ta'), {3}, "p ="),
        (lambda path: path.write_text('{"a": ' * 3000 + path.read_text()), {3}, "p ="),
        (edit(lambda line: line.update(text="")), {1, 3}, "p ="),
        (edit(lambda line: line.update(started=1e308, ended=-1e308)), {3}, "p ="),
    ],
)  # fmt: skip
def test_damaged_and_foreign_files(
    damage: Callable[[Path], object], codes: set[int], what: str, tmp_path: Path
) -> None:
    write_answers(tmp_path / "a.jsonl", draw_answer, 1)
    damage(write_answers(tmp_path / "b.jsonl", draw_answer, 2))
    done = cli("equality", "a.jsonl", "b.jsonl", cwd=tmp_path)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode in codes, said
    assert what in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"temperature": 0.0}, "was generated greedily"),
        ({"temperature": 0}, "was generated greedily"),
        ({"do_sample": False, "temperature": None}, "was generated greedily"),
    ],
)
def test_greedy_runs_are_refused(settings: dict[str, Any], what: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a", draw_answer, 1)
    write_run(tmp_path / "b", draw_answer, 2, **settings)
    check_error(cli("equality", "a", "b", cwd=tmp_path), what)


def test_calls_refuse_what_the_command_refuses(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--samples: 1 is not between 2 and 200"):
        call(A, B, samples=1)
    with pytest.raises(UserError, match="names nothing"):
        call("", B)
    with pytest.raises(TypeError):
        call(A, B, sampels=1)
