"""`meta-eval run` through a server that fails in every way that servers do: nothing is lost, nothing is asked twice."""

from __future__ import annotations

import gc
import itertools
import json
import re
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fake_server import FIELDS, OF_LLAMACPP, OF_VLLM, Body, FakeServer, completion, key_of, logprob
from forked import Forked, started
from marks import few, thorough
from own_record import CHOICES, TEXTS, config_of, record_run
from plugged import is_there
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval.judge.token_table import read_tokens


@dataclass(frozen=True)
class House:
    """A folder with a model's tokenizer, a pack, and an undisturbed run of it.

    ``prompts`` says how often each prompt is to be answered, and ``texts`` those of the texts. ``bodies`` were asked.
    """

    folder: Path
    record: Path
    scores: Any
    prompts: dict[str, int]
    texts: dict[str, int]
    bodies: list[Body]

    def arguments(self, *servers: FakeServer, output: Path, only: str = "", **keys: Any) -> list[str]:
        settings = {
            **config_of(self.record), "model_name": "tiny", "backend": "server", "concurrency": 8,
            "base_url": ",".join(server.url for server in servers) or None, "output_path": str(output),
            "max_model_len": 65536, "request_timeout": 60, "seed": 7, **keys,
        }  # fmt: skip
        sets = [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        return [
            "run",
            "--no-canary",
            "--no-report",
            "--config",
            "empty.yaml",
            *sets,
            *(["--tasks", only] if only else []),
        ]

    def run(
        self, *servers: FakeServer, output: Path, env: dict[str, str] | None = None, **keys: Any
    ) -> subprocess.CompletedProcess[str]:
        return cli(*self.arguments(*servers, output=output, **keys), "--json", cwd=self.folder, **(env or {}))

    def check(self, *servers: FakeServer, output: Path, done: subprocess.CompletedProcess[str], **keys: Any) -> None:
        """The run and the same command again end with the scores of an undisturbed run, and each prompt was answered
        once by all servers together. With ``only=TEXTS``, of the texts."""
        only = keys.get("only")
        assert done.returncode == 0, done.stderr
        again = self.run(*servers, output=output, **keys)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["asked"] == 0
        assert json.loads(again.stdout)["tasks"] == ({only: self.scores[only]} if only else self.scores)
        answered: dict[str, int] = {}
        for server in servers:
            for prompt, times in server.answered.items():
                answered[prompt] = answered.get(prompt, 0) + times
            assert server.most <= 8
        assert answered == (self.texts if only else self.prompts)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    folder, record = tmp_path_factory.mktemp("house"), record_run(tmp_path_factory)
    write_tokenizer(folder / "tiny")
    (folder / "empty.yaml").write_text("{}\n")
    with FakeServer() as server:
        first = House(folder, record, {}, {}, {}, [])
        done = first.run(server, output=folder / "undisturbed")
        assert done.returncode == 0, done.stderr
        output = json.loads(done.stdout)
        assert output["failed"] == 0
        assert output["engine"] == "vllm 0.0.fake"
        assert len(server.answered) > 25
        texts = {key_of(body) for body in server.bodies if body["max_tokens"] > 1}
        prompts = dict(server.answered)
        its_texts = {prompt: times for prompt, times in prompts.items() if prompt in texts}
        return House(folder, record, output["tasks"], prompts, its_texts, server.bodies)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._FIRST", 0.02)
    monkeypatch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))


def test_a_run_leaves_no_thread_and_no_open_loop(house: House, tmp_path: Path) -> None:
    gc.freeze()  # what was there before is not looked through
    with FakeServer() as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        assert house.run(server, output=tmp_path, only=TEXTS).returncode == 0
        gc.collect()
    assert [str(warning.message) for warning in caught if "event loop" in str(warning.message)] == []
    assert "servers" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("fault", few(["busy", "another order", "broken", "half", "cut"], 3))
def test_what_passes_changes_nothing(house: House, fault: str, tmp_path: Path) -> None:
    with FakeServer(faults=lambda number, _: fault if number % 5 == 0 else None, retry_after=0.1) as server:
        done = house.run(server, output=tmp_path)
        house.check(server, output=tmp_path, done=done)


def test_a_server_that_does_not_answer_is_asked_again_when_its_time_is_over(house: House, tmp_path: Path) -> None:
    with FakeServer(faults=lambda number, _: "hangs" if number in (3, 7) else None) as server:
        done = house.run(server, output=tmp_path, request_timeout=1, only=TEXTS)
        house.check(server, output=tmp_path, done=done, only=TEXTS)


def test_being_told_to_wait_all_wait(house: House, tmp_path: Path) -> None:
    times: list[float] = []

    def faults(number: int, _: Body) -> str | None:
        times.append(time.monotonic())
        return "busy" if number == 0 else None

    with FakeServer(faults=faults, seconds=0.02, retry_after=0.5) as server:
        house.run(server, output=tmp_path, concurrency=2, only=TEXTS)
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert max(pauses) > 0.4  # Retry-After: 0.5


def test_a_server_that_dies_and_comes_back_is_waited_for(house: House, tmp_path: Path) -> None:
    def faults(number: int, _: Body) -> None:
        if number == 12:
            threading.Thread(target=restart).start()

    def restart() -> None:
        server.die()
        time.sleep(0.5)
        server.start()

    with FakeServer(faults=faults, seconds=0.05) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
        assert "waiting for it" in done.stderr
        assert "answers again" in done.stderr
        house.check(server, output=tmp_path, done=done, only=TEXTS)


def test_of_two_servers_one_dies_and_the_other_does_its_work(house: House, tmp_path: Path) -> None:
    def faults(number: int, _: Body) -> None:
        if number == 12:
            threading.Thread(target=server.die).start()

    with FakeServer(seconds=0.02) as other:
        with FakeServer(faults=faults, seconds=0.02) as server:
            done = house.run(server, other, output=tmp_path)
        assert 0 < sum(server.answered.values()) < sum(other.answered.values())
        house.check(server, other, output=tmp_path, done=done)


@thorough
def test_a_server_that_stays_away_ends_the_run_with_what_it_answered(house: House, tmp_path: Path) -> None:
    def faults(number: int, _: Body) -> None:
        if number == 12:
            threading.Thread(target=server.die).start()

    with FakeServer(faults=faults, seconds=0.05) as server:
        done = house.run(server, output=tmp_path, request_timeout=1)
        assert done.returncode == 2
        assert "did not answer for 1 seconds" in done.stderr
        before = sum(server.answered.values())
        assert before
        server.start()
        house.check(server, output=tmp_path, done=house.run(server, output=tmp_path))


@pytest.mark.parametrize("left", ["prompt_logprobs", "echo"])
def test_fields_that_a_server_refuses_are_left_out_once_for_all(house: House, left: str, tmp_path: Path) -> None:
    """Choices are then scored from the log-probabilities of the prompt, in one of two ways."""
    takes = FIELDS | {"prompt_logprobs"} if left == "prompt_logprobs" else FIELDS
    with FakeServer(takes=takes, refuses_others=True) as server:
        done = house.run(server, output=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "does not accept return_token_ids" in done.stderr
        assert json.loads(done.stdout)["tasks"] == house.scores
        asked = [body for body in server.bodies if body["prompt"] != [0, 0, 0]]
        assert all(set(body) <= takes for body in asked)
        assert any(left in body for body in asked)


@pytest.mark.parametrize(
    ("ids_end_in", "takes"),
    [
        (422, FIELDS),
        (400, FIELDS),
        (500, FIELDS | OF_VLLM),
        (404, FIELDS | OF_VLLM),
        (0, FIELDS | OF_VLLM),
        (200, FIELDS),
    ],
    ids=["TGI", "TensorRT-LLM", "MLX, LMDeploy", "older MLX", "cut", "a prompt an id"],
)
def test_prompts_go_out_as_text_where_token_ids_are_refused(
    house: House, ids_end_in: int, takes: frozenset[str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer.from_file(str(house.folder / "tiny/tokenizer.json"))
    with FakeServer(
        token_ids=False, ids_end_in=ids_end_in, takes=takes, refuses_others=True,
        encode=lambda text: tokenizer.encode(text).ids,
    ) as server:  # fmt: skip
        done = house.run(server, output=tmp_path, only=TEXTS)
        assert done.returncode == 0, done.stderr
        assert "prompts are sent as text" in done.stderr
        texts = [json.loads(prompt) for prompt in server.answered]
    assert texts
    assert not any("<|begin_of_text|>" in text for text in texts)


def test_a_served_name_is_no_tokenizer_and_the_key_names_it(house: House, tmp_path: Path) -> None:
    """What is sent, and so what is scored, is that of the model whose name is its folder's."""
    with FakeServer(model="a/served-name") as server:
        keys = {"model_name": "a/served-name", "tokenizer": "tiny", "work_dir": str(tmp_path / "pack")}
        done = house.run(server, output=tmp_path / "out", **keys)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["tasks"] == house.scores
        assert dict(server.answered) == house.prompts


def test_text_to_which_a_server_adds_no_bos_is_not_answered(house: House, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(house.folder / "tiny/tokenizer.json"))
    with FakeServer(
        token_ids=False, takes=FIELDS, encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    ) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
    assert done.returncode == 2
    counts = {line["error"].partition("/v1: ")[2] for line in _lines(tmp_path)}
    assert counts
    assert all(re.fullmatch(r"it read [\d,]+ tokens of prompt, and [\d,]+ were meant", count) for count in counts)


@pytest.mark.plugin("tokens")
@thorough
def test_llama_cpps_server_scores_recorded_answers_by_writing_them(house: House, tmp_path: Path) -> None:
    with FakeServer(takes=FIELDS - {"echo"} | OF_LLAMACPP) as server:
        done = measured(house, server, tmp_path, "--docs", "1")
    assert done.returncode == 0, done.stderr
    assert f"{server.url} scores a text by writing it: a doc takes as long as its answer did" in done.stderr
    (answer,) = read_tokens(Path(json.loads(done.stdout)["table"]))
    prompt = next(body["prompt"] for body in server.bodies if len(body["prompt"]) == answer.prompt_tokens)
    ids = [int(token) for token in answer.token_ids]
    own = [logprob([*prompt, *ids[:place]], token) for place, token in enumerate(ids)]
    assert answer.logprobs == pytest.approx(own, abs=1e-5)


def test_choices_that_a_server_cannot_score_are_said_and_no_score(house: House, tmp_path: Path) -> None:
    with FakeServer(takes=FIELDS - {"echo", "logprobs"}) as server:
        done = house.run(server, output=tmp_path)
        alone = house.run(server, output=tmp_path / "alone", only=CHOICES)
    assert done.returncode == 1
    output = json.loads(done.stdout)
    ways = "prompt_logprobs, echo, grammar" if is_there("engines") else "prompt_logprobs, echo"
    why = f"{server.url} says no log-probabilities of named tokens or of a prompt ({ways})"
    assert output["left_out"] == {CHOICES: why}
    assert output["failed"] == 0
    assert list(output["tasks"]) == [TEXTS]
    assert output["tasks"][TEXTS] == house.scores[TEXTS]
    assert f"{CHOICES}: left out, because multiple choice cannot be scored" in done.stderr
    assert alone.returncode == 2
    assert f"{CHOICES}: cannot be scored" in alone.stderr


def test_choices_without_the_tokenizer_are_left_out_and_the_key_is_named(house: House, tmp_path: Path) -> None:
    with FakeServer(model="served") as server:
        done = house.run(server, output=tmp_path / "out", model_name="served", work_dir=str(tmp_path / "pack"))
    assert done.returncode == 1
    assert list(json.loads(done.stdout)["tasks"]) == [TEXTS]
    assert "the tokenizer of served: it is not in the cache" in done.stderr
    assert "set tokenizer to a hub id or a folder" in json.loads(done.stdout)["left_out"][CHOICES]


def measured(
    house: House, server: FakeServer, output: Path, *arguments: str, probe: str = "--no-probe"
) -> subprocess.CompletedProcess[str]:
    """``meta-eval fidelity`` of the texts."""
    run, *rest = house.arguments(server, output=output, only=TEXTS)
    del rest[: rest.index("--config")]
    assert run == "run"
    return cli("fidelity", *rest, "--json", probe, *arguments, cwd=house.folder)


@pytest.mark.plugin("tokens")
def test_a_recorded_answer_is_forced_through_one_prompt(house: House, tmp_path: Path) -> None:
    with FakeServer() as server:
        done = measured(house, server, tmp_path)
        bodies = [body for body in server.bodies if body["prompt"] != [0, 0, 0] and len(body["prompt"]) > 1]
    assert done.returncode == 0, done.stderr
    answers = list(read_tokens(Path(json.loads(done.stdout)["table"])))
    forced = [body for body in bodies if body.get("prompt_logprobs") == 1 and len(body["prompt"]) > 9]
    assert len(forced) == len(answers) > 5
    assert {body["max_tokens"] for body in forced} == {1}
    prompts = {tuple(body["prompt"]) for body in forced}
    for answer in answers:
        (whole,) = [ids for ids in prompts if ids[answer.prompt_tokens :] == tuple(answer.token_ids)]
        own = [logprob(whole[:at], whole[at]) for at in range(answer.prompt_tokens, len(whole))]
        assert answer.logprobs == pytest.approx(own, abs=1e-5)
        second = [at % 3 == 0 for at in range(answer.prompt_tokens, len(whole))]
        assert list(answer.ranks) == [2 if likelier else 1 for likelier in second]
        assert list(answer.top_ids) == [t + likelier for t, likelier in zip(answer.token_ids, second, strict=True)]


@pytest.mark.plugin("tokens")
def test_a_log_probability_above_0_fails_its_request_alone_which_is_asked_again(house: House, tmp_path: Path) -> None:
    bad: dict[str, list[int]] = {}

    def complete(body: Body, encode: Callable[[str], list[int]]) -> dict[str, Any]:
        answer = completion(body, encode)
        places = answer["choices"][0].get("prompt_logprobs") or []
        if len(body["prompt"]) > 9 and places and bad.setdefault("prompt", body["prompt"]) == body["prompt"]:
            next(iter(places[-1].values()))["logprob"] = 2.5
        return answer

    with FakeServer(complete=complete) as server:
        done = measured(house, server, tmp_path)
        server.complete = completion
        again = measured(house, server, tmp_path)
    first, second = json.loads(done.stdout), json.loads(again.stdout)
    assert (done.returncode, first["failed"], again.returncode, second["asked"]) == (1, 1, 0, 1), done.stderr
    assert f"{server.url}: a response in which a log-probability is above 0" in done.stderr.replace("\n", " ")
    assert second["answers"] == first["answers"] + 1 > 5


@pytest.mark.plugin("tokens")
def test_probes_of_one_doc_are_asked_side_by_side(house: House, tmp_path: Path) -> None:
    from meta_eval.plugins.tokens.probe_table import read_probes

    with FakeServer() as server:
        done = measured(house, server, tmp_path, "--docs", "6", probe="--probe")
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["probed"] == len(read_probes(Path(output["table"]))) > 12


@pytest.mark.plugin("tokens")
def test_a_server_with_echo_alone_says_no_ranks(house: House, tmp_path: Path) -> None:
    with FakeServer(takes=FIELDS) as server:
        done = measured(house, server, tmp_path)
        assert done.returncode == 0, done.stderr
        refused = measured(house, server, tmp_path / "k", "--top-k", "2")
    first = next(iter(read_tokens(Path(json.loads(done.stdout)["table"]))))
    assert set(first.ranks) == {1}, "the fake's likeliest token is the one itself"
    assert refused.returncode == 2
    assert "it returns no ids of the likeliest tokens" in " ".join(refused.stderr.split())


@pytest.mark.plugin("tokens")
def test_a_server_without_logprobs_of_a_prompt_forces_nothing(house: House, tmp_path: Path) -> None:
    with FakeServer(takes=FIELDS - {"echo", "logprobs"}) as server:
        done = measured(house, server, tmp_path, probe="--probe")
    assert done.returncode == 2
    assert "says no log-probabilities of a prompt" in " ".join(done.stderr.split())
    with FakeServer(token_ids=False) as server:
        done = measured(house, server, tmp_path, probe="--probe")
    assert "takes no token ids" in " ".join(done.stderr.split())
    assert not any(body["prompt"] not in ([0, 0, 0], "1") for body in server.bodies)


@pytest.mark.parametrize("takes", [FIELDS, FIELDS | {"prompt_logprobs"}], ids=["echo", "prompt_logprobs"])
def test_choices_of_a_prompt_that_was_cut_are_no_answer_where_nothing_is_counted(
    house: House, takes: set[str], tmp_path: Path
) -> None:
    def cut(body: dict[str, Any], encode: Callable[[str], list[int]]) -> dict[str, Any]:
        ids = body["prompt"] if isinstance(body["prompt"], list) else encode(body["prompt"])
        tree = completion({**body, "prompt": ids[-20:]}, encode)
        tree.pop("usage")
        return tree

    with FakeServer(takes=takes, complete=cut) as server:
        done = house.run(server, output=tmp_path, only=CHOICES)
    assert done.returncode == 2
    errors = {line["error"].partition("/v1: ")[2] for line in _lines(tmp_path)}
    assert errors and all(re.match(r"it read 2[01] tokens of prompt, and [\d,]+ were meant", error) for error in errors)


def test_a_prompt_that_a_server_cut_is_no_answer(house: House, tmp_path: Path) -> None:
    with FakeServer(faults=lambda number, _: "shorter" if number == 4 else None) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
    assert done.returncode == 1
    (wrong,) = [line for line in _lines(tmp_path) if "error" in line]
    assert "tokens of prompt" in wrong["error"]


def test_a_request_that_is_refused_for_good_is_asked_once_a_run_and_stops_no_other(
    house: House, tmp_path: Path
) -> None:
    """The first is named at once."""
    with FakeServer(faults=lambda number, _: "refused" if number in (4, 5) else None) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
        assert done.returncode == 1
        assert " ".join(done.stderr.split()).count(" has no answer: ") == 1
        assert len(server.prompts()) == sum(house.texts.values())
        house.check(server, output=tmp_path, done=house.run(server, output=tmp_path, only=TEXTS), only=TEXTS)


def test_where_nothing_is_answered_the_run_ends_soon(house: House, tmp_path: Path) -> None:
    with FakeServer(faults=lambda _number, _body: "broken") as server:
        done = house.run(server, output=tmp_path, retries=1)
    assert done.returncode == 2
    assert "none of 16 requests was answered" in done.stderr
    assert "500: internal error. Look into the server's log, then rerun" in " ".join(done.stderr.split())


def test_what_the_server_is_asked(house: House) -> None:
    texts = [body for body in house.bodies if body["max_tokens"] > 1]
    choices = [body for body in house.bodies if "logprob_token_ids" in body and body["prompt"] != [0, 0, 0]]
    assert len(texts) == 15
    for body in texts:
        assert body["prompt"][0] == 0  # the BOS
        assert 0 not in body["prompt"][1:]
        assert body["stop"][-1] == "<|eot_id|>"
        assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 64)
        assert body["skip_special_tokens"] is False
    assert len(choices) == 16
    assert all(len(body["logprob_token_ids"]) == body["logprobs"] == 4 for body in choices)
    for line in _lines(house.folder / "undisturbed"):
        assert line["cached_tokens"] == 2
        assert line["prompt_tokens"] > 2
        assert ("finish_reason" in line) == ("text" in line)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"model": "other"}, "serves other, not tiny"),
        ({"says_length": False, "card": {"meta": {"n_ctx": 2048}}}, "contexts of 2,048 tokens, and max_model_len is"),
        ({"max_model_len": 4096}, "contexts of 4,096 tokens, and max_model_len is 65,536"),
        ({"key": "s3cret-key-of-nobody"}, "Set OPENAI_API_KEY"),
        ({"pages": ("/chat/completions",)}, "serves only /chat/completions"),
        ({"pages": ()}, "answers 404: Not Found. Check base_url"),
        ({"model": "other"}, "tokenizer to the model's hub id or folder"),
    ],
)
def test_a_server_that_will_not_do_is_one_message(
    house: House, server: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with FakeServer(**server) as fake:
        done = house.run(fake, output=tmp_path)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_server_that_refuses_token_ids_and_cuts_texts_is_one_message(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake_server.completion", lambda _body, _encode: 1 / 0)
    with FakeServer(token_ids=False) as fake:
        done = house.run(fake, output=tmp_path)
    assert (done.returncode, "rejects token ids" in " ".join(done.stderr.split())) == (2, True)


def test_a_length_that_cannot_be_is_none(house: House, tmp_path: Path) -> None:
    with FakeServer(max_model_len=-9) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
    assert done.returncode == 0 and "does not report its context length" in done.stderr


@pytest.mark.parametrize("listed", ["tiny:latest", "/models/tiny.gguf"], ids=["Ollama", "llama.cpp"])
def test_a_model_is_known_under_a_servers_own_name(house: House, listed: str, tmp_path: Path) -> None:
    with FakeServer(listed=listed, says_length=False) as server:
        done = house.run(server, output=tmp_path, only=TEXTS)
    assert done.returncode == 0, done.stderr
    assert {body["model"] for body in server.bodies if body["prompt"] != [0, 0, 0]} == {listed}
    assert "does not report its context length: max_model_len=65,536 is not checked" in done.stderr


def test_the_key_of_the_api_is_told_to_the_server_and_to_nobody_else(house: House, tmp_path: Path) -> None:
    key = "s3cret-key-of-nobody"
    with FakeServer(key=key) as fake:
        done = house.run(fake, output=tmp_path, env={"OPENAI_API_KEY": key}, only=TEXTS)
        assert done.returncode == 0, done.stderr
        wrong = house.run(fake, output=tmp_path / "2", env={"OPENAI_API_KEY": "wr0ng-key"}, only=TEXTS)
    assert wrong.returncode == 2
    assert "wr0ng-key" not in wrong.stderr
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or key not in path.read_text("utf-8", "replace")


def test_no_server_at_all_is_one_message(house: House, tmp_path: Path) -> None:
    gone = FakeServer()
    done = house.run(gone, output=tmp_path)
    assert done.returncode == 2
    assert "does not answer: nobody listens there" in done.stderr
    unset = house.run(output=tmp_path, base_url=[])
    assert unset.returncode == 2
    assert "base_url: is not set" in unset.stderr


def test_a_second_run_is_refused_and_one_that_is_killed_goes_on(house: House, tmp_path: Path) -> None:
    with FakeServer(seconds=0.2) as server:
        first = started(*house.arguments(server, output=tmp_path, concurrency=2), cwd=house.folder)
        _until(lambda: len(_lines(tmp_path)) >= 4, first)
        second = house.run(server, output=tmp_path)
        assert second.returncode == 2
        assert "another run is writing" in second.stderr
        first.send_signal(signal.SIGKILL)
        first.wait()
        while server.now:  # what it had asked is answered into nothing
            time.sleep(0.05)
        kept = {line["id"] for line in _lines(tmp_path)}
        assert 0 < len(kept) < sum(house.prompts.values())
        asked = len(server.prompts())
        server.seconds = 0.0
        done = house.run(server, output=tmp_path)
        assert json.loads(done.stdout)["before"] == len(kept)
        assert json.loads(done.stdout)["tasks"] == house.scores
        assert len(server.prompts()) - asked == sum(house.prompts.values()) - len(kept)


def test_ctrl_c_ends_it_at_once_and_keeps_what_was_answered(house: House, tmp_path: Path) -> None:
    with FakeServer(faults=lambda number, _: "hangs" if number >= 10 else None) as server:
        first = started(*house.arguments(server, output=tmp_path, only=TEXTS), cwd=house.folder)
        _until(lambda: len(_lines(tmp_path)) >= 10, first)
        began = time.monotonic()
        first.send_signal(signal.SIGINT)
        assert first.wait(20) == 130
        assert time.monotonic() - began < 5
        server.faults = lambda _number, _body: None
        done = house.run(server, output=tmp_path, only=TEXTS)
        assert json.loads(done.stdout)["before"] == 10
        assert json.loads(done.stdout)["tasks"] == {TEXTS: house.scores[TEXTS]}


@thorough
def test_a_full_disk_ends_it_and_loses_nothing(house: House, tmp_path: Path) -> None:
    with FakeServer() as server:
        first = started(*house.arguments(server, output=tmp_path), cwd=house.folder, most_bytes=6000)
        assert first.wait(120) == 2
        kept = _lines(tmp_path)
        assert kept
        done = house.run(server, output=tmp_path)
        assert json.loads(done.stdout)["before"] == len(kept)
        assert json.loads(done.stdout)["tasks"] == house.scores


def _until(true: Any, process: Forked) -> None:
    until = time.monotonic() + 120
    while not true():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def _lines(output: Path) -> list[dict[str, Any]]:
    """All whole lines of the files of answers but the first."""
    result = []
    for path in output.glob("answers/*.jsonl"):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"}\n") and b'"settings_sha256"' not in line:
                result.append(json.loads(line))
    return result
