"""equality: what is refused, endpoints that lie, keys, damaged and foreign files."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Reply, completion
from command import cli
from fake_server import Body
from marks import few, thorough
from sampled_server import Draw, draw_answer, equality, sampled_server, sure, write_answers, write_run

from meta_eval.base.errors import UserError
from meta_eval.plugins.equality.api import equality as call
from meta_eval.plugins.equality.two_samples import PromptSamples, simulate_power

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


@thorough
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


def reply(body: Body) -> Body:
    return completion(draw_answer(str(body["messages"]), random.Random(str(body.get("seed")))))


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_chat_endpoints_are_asked_with_messages(chat_place: Path) -> None:
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


def judge(folder: Path, draw_a: Draw, draw_b: Draw, prompts: int = 12, samples: int = 12) -> dict[str, Any]:
    """What is said of recorded answers of two sources."""
    write_answers(folder / "a.jsonl", draw_a, 1, prompts=prompts, samples=samples)
    write_answers(folder / "b.jsonl", draw_b, 2, prompts=prompts, samples=samples)
    tree: dict[str, Any] = json.loads(cli("equality", "a.jsonl", "b.jsonl", "--json", cwd=folder).stdout)
    return tree


def settled(prompt: str, rng: random.Random, model: str = "") -> str:
    """A model whose answers differ now and then, and of which few tell much."""
    return draw_answer(prompt, rng, first=0.9, model=model)


_FILLED = " lorem ipsum dolor sit amet" * 40


@thorough
def test_answers_that_are_longer_than_what_is_compared_are_not_the_same(tmp_path: Path) -> None:
    def differ_behind(prompt: str, rng: random.Random) -> str:
        text = settled(prompt, rng) + _FILLED
        return text[:1000] if int(prompt[7:]) % 2 else text + settled(prompt, rng, "other")

    tree = judge(tmp_path, lambda p, rng: settled(p, rng) + _FILLED + settled(p, rng), differ_behind, 24, 20)
    assert tree["outcome"] == "undecided"
    assert "longer than 1,000 characters" in tree["summary"]


def test_a_copy_in_another_order_is_not_the_same(tmp_path: Path) -> None:
    write_answers(tmp_path / "a.jsonl", settled, 1, prompts=24, samples=16)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    for _, group in itertools.groupby(lines, key=lambda line: line["prompt_sha256"]):
        answers = list(group)
        texts = [answer["text"] for answer in answers]
        random.Random(answers[0]["id"]).shuffle(texts)
        for answer, text in zip(answers, texts, strict=True):
            answer["text"] = text
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = cli("equality", "a.jsonl", "b.jsonl", "--json", cwd=tmp_path)
    assert "they are a copy" in json.loads(done.stdout)["summary"]


def test_a_folder_of_runs_with_other_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    write_answers(tmp_path / "a.jsonl", draw_answer, 1)
    for part in (0, 1):
        path = write_answers(tmp_path / "b" / f"{part}.jsonl", draw_answer, 2)
        header = {"format": "meta-eval answers", "version": 1, "model": "m", "settings_sha256": f"{part}" * 64}
        lines = path.read_text().splitlines()[60 * part : 60 * (part + 1)]
        path.write_text("\n".join([json.dumps(header), *lines]) + "\n")
    check_error(cli("equality", "a.jsonl", "b", cwd=tmp_path), "holds answers of runs with other settings")


def test_all_models_of_recorded_answers_are_named(tmp_path: Path) -> None:
    write_answers(tmp_path / "a.jsonl", draw_answer, 1, model="m0")
    lines = write_answers(tmp_path / "b.jsonl", draw_answer, 2).read_text().splitlines()
    named = [json.dumps({**json.loads(line), "model": f"m{number % 2 + 1}"}) for number, line in enumerate(lines)]
    (tmp_path / "b.jsonl").write_text("\n".join(named) + "\n")
    done = cli("equality", "a.jsonl", "b.jsonl", "--json", cwd=tmp_path)
    assert [side["model"] for side in json.loads(done.stdout)["sides"]] == ["m0", "m1, m2"]


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"temperature": 0.2}, "temperature is 1.0 in A and 0.2 in B"),
        ({"temperature": float("nan")}, "temperature is 1.0 in A and nan in B"),
        ({"until": ["."]}, "until is"),
    ],
)
def test_recorded_runs_with_other_settings_are_refused(settings: dict[str, Any], what: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a", draw_answer, 1)
    write_run(tmp_path / "b", draw_answer, 2, **settings)
    check_error(cli("equality", "a", "b", cwd=tmp_path), what)


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--set", 'model_args={"temperature": 0}'], "temperature is 0 for A and 0 for B"),
        (["--set-b", 'model_args={"max_tokens": 3}'], "max_tokens is None for A and 3 for B"),
        (["--set-b", 'model_args={"top_k": 1}'], "top_k is None for A and 1 for B"),
    ],
)
def test_fields_that_take_the_place_of_the_sampling_are_refused(words: list[str], what: str, chat_place: Path) -> None:
    done = cli("equality", A, B, *PACK, *words, "--prompts", "2", "--samples", "2", cwd=chat_place)
    check_error(done, what)


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_a_field_that_was_left_out_is_still_said_by_the_next_command(chat_place: Path) -> None:
    def refuse(body: Body) -> Reply | Body:
        what = {
            "message": "Unsupported parameter: 'temperature'",
            "param": "temperature",
            "code": "unsupported_parameter",
        }
        return Reply({"error": what}, 400) if "temperature" in body else reply(body)

    with ChatServer(reply) as a, ChatServer(refuse) as b:
        words = ("equality", a.url, b.url, *PACK, "--prompts", "3", "--samples", "3", "--json", "--output", "omitted")
        first, second = (cli(*words, cwd=chat_place) for _ in range(2))
    assert "B does not accept temperature: it was left out of its requests" in json.loads(first.stdout)["notes"]
    assert first.stdout == second.stdout


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_many_names_of_models_are_counted(chat_place: Path) -> None:
    numbers = itertools.count()
    with ChatServer(reply) as a, ChatServer(lambda body: {**reply(body), "model": f"m{next(numbers):03}"}) as b:
        words = ("--prompts", "3", "--samples", "4", "--json", "--output", "names")
        done = cli("equality", a.url, b.url, *PACK, *words, cwd=chat_place)
    assert "and 7 more" in " ".join(json.loads(done.stdout)["notes"])


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_the_key_of_a_server_with_tls_is_not_sent_without(chat_place: Path) -> None:
    words = ("--set", "api_key_env=OWN_KEY", "--prompts", "2", "--samples", "2")
    done = cli("equality", A.replace("http:", "https:"), A, *PACK, *words, cwd=chat_place, OWN_KEY="k" * 30)
    check_error(done, "--set-b api_key_env=NAME")


def test_one_address_for_both_is_said(place: Path) -> None:
    with sampled_server() as a:
        assert any("one place" in note for note in equality(place, a, a, "--prompts", "3", "--samples", "3")["notes"])


@thorough
def test_many_answers_take_little_memory() -> None:
    texts = [draw_answer("prompt", random.Random(number)) for number in range(600)]
    tracemalloc.start()
    simulate_power([PromptSamples(texts[:300], texts[300:])], 60)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 130 * 2**20


@pytest.mark.parametrize(
    ("draw_a", "draw_b", "outcomes"),
    [
        (draw_answer, lambda p, rng: draw_answer(p, rng)[::-1], {"different"}),
        (draw_answer, lambda p, rng: " ".join(draw_answer(p, rng).split()[::-1]), {"different"}),
        (draw_answer, lambda p, rng: draw_answer(p, rng) + " ", {"different", "undecided"}),
        (draw_answer, lambda p, rng: draw_answer(p, rng) + "\0", {"different", "undecided"}),
        (lambda p, rng: "caf\u00e9 " + draw_answer(p, rng), lambda p, rng: "cafe\u0301 " + draw_answer(p, rng), {"different"}),
        (lambda p, rng: "The " + draw_answer(p, rng), lambda p, rng: "The " + draw_answer(p, rng, model="b"), {"different"}),
        (draw_answer, lambda p, rng: p + draw_answer(p, rng), {"different"}),
        (draw_answer, lambda p, rng: draw_answer("prompt 0", rng), {"different"}),
        (sure, lambda p, rng: "No." if p == "prompt 3" else sure(p, rng), {"different"}),
        (lambda p, rng: rng.choice("ABCD"), lambda p, rng: rng.choice("AAAAAABCD"), {"different"}),
        (lambda p, rng: rng.choice("ABCD"), lambda p, rng: rng.choice("ABCD"), {"undecided"}),
        (lambda p, rng: "I cannot help.", lambda p, rng: "I cannot help.", {"undecided"}),
        (lambda p, rng: "", lambda p, rng: "", {"undecided"}),
        (draw_answer, lambda p, rng: draw_answer(p, random.Random(p + str(rng.random() < 0.5))), {"different"}),
        (draw_answer, lambda p, rng: draw_answer(p, random.Random(p) if int(p[7:]) % 5 < 2 else rng), {"different", "undecided"}),
    ],
    ids=["reversed", "words reversed", "space", "nul", "normalisation", "first word", "echo", "one prompt", "one refusal",
         "letters", "same letters", "same refusals", "empty", "two cached", "some cached"],
)  # fmt: skip
def test_what_differs_is_not_the_same(draw_a: Draw, draw_b: Draw, outcomes: set[str], tmp_path: Path) -> None:
    assert judge(tmp_path, draw_a, draw_b)["outcome"] in outcomes


@pytest.mark.parametrize("extra", [{"reasoning": "Hm."}, {"tool_calls": [{"name": "f", "arguments": "{}"}]}])
def test_what_one_side_says_beside_its_text_counts(extra: dict[str, Any], tmp_path: Path) -> None:
    write_answers(tmp_path / "a.jsonl", draw_answer, 1)
    write_answers(tmp_path / "b.jsonl", draw_answer, 2, **extra)
    assert cli("equality", "a.jsonl", "b.jsonl", cwd=tmp_path).returncode == 1
