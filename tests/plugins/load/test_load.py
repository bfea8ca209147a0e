"""load: sound servers are the same, faulty ones are worse; what is asked, kept, resumed and refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, completion
from command import cli
from forked import started
from load_server import DOCS, TASK, load_pack, load_server

from meta_eval.base.errors import UserError
from meta_eval.plugins.load.api import load
from meta_eval.plugins.load.engine_figures import parse_metrics
from meta_eval.plugins.load.load_build import choose_next_level


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = load_pack(tmp_path_factory)
    for name in ("work_dir", "model"):
        shutil.copytree(made / name, tmp_path / name)
    shutil.copy(made / "eval_config.yaml", tmp_path)
    return tmp_path


def run(place: Path, server: Any, *words: str, code: int | None = None) -> dict[str, Any]:
    done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--json", *words, cwd=place)
    assert code is None or done.returncode == code, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree


def levels(tree: dict[str, Any]) -> dict[int, str]:
    return {level["level"]: level["decision"]["outcome"] for level in tree["levels"]}


def test_a_sound_server_whose_near_ties_turn_is_the_same(place: Path) -> None:
    with load_server(place / "model") as server:
        tree = run(place, server, "--concurrency", "6,16", code=0)
    assert levels(tree) == {6: "same", 16: "same"}
    assert tree["near_tie_nats"] == 1.0
    counts = [level["counts"] for level in tree["levels"]]
    assert all(one["answers"] == DOCS and one["corrupted"] == one["parted"] == 0 for one in counts)
    assert sum(one["near_ties"] for one in counts) > 0  # else nothing was tried


@pytest.mark.parametrize(
    ("fault", "share", "sign"),
    [("exchange", 0.2, "another request's text"), ("splice", 0.2, "an unlikely token"), ("tail", 0.2, "lost text")],
)
def test_a_faulty_server_is_worse_from_the_level_on_at_which_it_is(
    fault: str, share: float, sign: str, place: Path
) -> None:
    with load_server(place / "model", fault, share, above=6) as server:
        tree = run(place, server, "--concurrency", "4,12", "--traffic", "0", "--docs", "120", code=1)
    assert levels(tree)[12] == "worse"
    assert levels(tree)[4] != "worse"
    assert "from 12 in flight on (not at 4)" in tree["summary"]
    assert sign in {sign for one in tree["corrupted"] for sign in one["signs"]}
    first = tree["corrupted"][0]
    assert first["alone"] != first["loaded"]


def test_without_log_probabilities_signs_in_the_text_suffice(place: Path) -> None:
    with load_server(place / "model", "tail", 0.2, above=6, scores=False) as server:
        tree = run(place, server, "--concurrency", "12", "--traffic", "0", "--docs", "120", code=1)
    assert tree["near_tie_nats"] is None
    assert any("near ties are not known" in note for note in tree["notes"])


def test_a_slow_server_that_is_often_busy_is_not_worse(place: Path) -> None:
    with load_server(place / "model", faults=lambda number, _: "busy" if number % 20 == 3 else None,
                     retry_after=0.05) as server:  # fmt: skip
        tree = run(place, server, "--concurrency", "12", "--docs", "80")
    assert levels(tree)[12] != "worse"
    assert tree["levels"][0]["counts"]["answers"] == 80


def test_verdicts_that_are_lost_without_any_sign_are_enough(place: Path) -> None:
    """Every answer is another one that the model could give, and wrong."""
    letters = "ABCDEFGHIJ"

    def wrong(text: str, now: int) -> str:
        if now < 3 or not text.endswith("."):
            return text
        return f"{text[:-2]}{letters[(letters.index(text[-2]) + 1) % 10]}."

    with load_server(place / "model", spoil=wrong, scores=False) as server:
        tree = run(place, server, "--concurrency", "12", "--traffic", "0", "--docs", "120", code=1)
    (level,) = tree["levels"]
    assert level["verdicts"]["lost"] > 20
    assert "verdicts lost" in level["decision"]["reason"]


def test_no_more_requests_are_in_flight_than_named(place: Path) -> None:
    with load_server(place / "model") as server:
        tree = run(place, server, "--concurrency", "10", "--docs", "40", "--traffic", "0.5", "--abort", "0")
        assert 6 <= server.most <= 10
    traffic = tree["levels"][0]["traffic"]
    assert traffic["answered"] > 0
    assert traffic["given_up"] == 0
    made_up = [prompt for prompt in server.prompts() if len(json.loads(prompt)) > 60]
    assert made_up  # texts of their own


def test_made_up_requests_are_given_up_as_clients_do(place: Path) -> None:
    with load_server(place / "model", tied=0) as server:
        server.seconds = 0.3
        tree = run(place, server, "--concurrency", "8", "--docs", "12", "--abort", "1")
    assert tree["levels"][0]["traffic"]["given_up"] > 0


def test_the_same_command_asks_nothing_again_and_says_the_same(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "30", "--traffic", "0")
    with load_server(place / "model") as server:
        first = run(place, server, *words)
        asked = len(server.prompts())
        again = run(place, server, *words)
        assert len(server.prompts()) == asked
    without = cli("load", "work_dir", "--no-ask", "--json", *words, cwd=place)
    assert without.returncode != 2, without.stderr
    for tree in (again, json.loads(without.stdout)):
        assert levels(tree) == levels(first)
        assert [level["counts"] for level in tree["levels"]] == [level["counts"] for level in first["levels"]]


def test_a_run_that_was_interrupted_goes_on(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "60", "--traffic", "0")
    with load_server(place / "model") as server:
        server.seconds = 0.05
        running = started("load", "work_dir", "--set", f"base_url={server.url}", *words, cwd=place)
        while len(server.prompts()) < 20:
            threading.Event().wait(0.05)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate()
        assert running.wait() == 130
        assert "Rerun the same command to resume" in error
        server.seconds = 0.0
        before = len(server.bodies)
        tree = run(place, server, *words)
        asked = [body for body in server.bodies[before:] if "prompt_logprobs" not in body]
        assert len(asked) < 60 * 3
    assert tree["levels"][0]["counts"]["answers"] == 60


def test_levels_are_searched_between_the_good_and_the_bad(place: Path) -> None:
    with load_server(place / "model", "exchange", 0.5, above=9) as server:
        tree = run(place, server, "--concurrency", "4,40", "--traffic", "0", "--docs", "80", "--search", code=1)
    outcomes = levels(tree)
    worse = min(level for level, outcome in outcomes.items() if outcome == "worse")
    good = max(level for level in outcomes if level < worse)
    assert good <= 13
    assert worse <= 1.4 * good
    assert 10 <= worse <= 20


def test_deployments_stand_side_by_side(place: Path) -> None:
    words = ("--concurrency", "12", "--docs", "100", "--traffic", "0")
    with load_server(place / "model", "exchange", 0.3, above=6) as server:
        run(place, server, *words, code=1)
    with load_server(place / "model", above=6) as server:
        tree = run(place, server, *words, "--vary", "prefix caching off", "--html", "page.html")
    assert tree["deployment"] == "prefix caching off"
    (other,) = tree["other_deployments"]
    assert (other["name"], other["levels"][0][:2]) == ("plain", [12, "worse"])
    assert "prefix caching off" in (place / "page.html").read_text("utf-8")


def test_the_use_of_the_pool_stands_beside_the_answers(place: Path) -> None:
    def page() -> str:
        return (
            "# HELP vllm:kv_cache_usage_perc\n"
            f'vllm:kv_cache_usage_perc{{engine="0"}} {0.95 if server.now > 4 else 0.1}\n'
            f"vllm:num_requests_running {server.now}\nvllm:num_preemptions_total 3\n"
        )

    with load_server(place / "model", metrics=page) as server:
        server.seconds = 0.05
        tree = run(place, server, "--concurrency", "12", "--docs", "60")
    (level,) = tree["levels"]
    assert level["pool"] == 0.95
    assert level["preemptions"] == 0
    assert sum(row[1] for row in level["by_pool"]) > 30


def test_the_fault_is_written_down_with_made_up_prompts_alone(place: Path) -> None:
    with load_server(place / "model", "exchange", 0.3, above=6) as server:
        tree = run(
            place, server, "--concurrency", "12", "--traffic", "0", "--docs", "80", "--reproduce", "made", code=1
        )
        content = json.loads((place / "made" / "prompts.json").read_text("utf-8"))
        assert "Question" not in json.dumps(content)
        assert content["level"] == 12
        assert 1 <= len(content["prompts"]) < 64
        program = [sys.executable, "-IS", place / "made" / "reproduce.py", server.url]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "answers differ at 12 in flight" in done.stdout
    assert any("made-up prompt" in note for note in tree["notes"])


def test_a_sound_server_has_nothing_to_write_down(place: Path) -> None:
    with load_server(place / "model", tied=0) as server:
        tree = run(place, server, "--concurrency", "8", "--docs", "20", "--reproduce", "made")
    assert not (place / "made").exists()
    assert "no level is worse, so there is nothing to reproduce" in tree["notes"]


def test_a_folder_of_others_is_refused_before_anything_is_asked(place: Path) -> None:
    (place / "made").mkdir()
    (place / "made" / "reproduce.py").write_text("mine")
    with load_server(place / "model") as server:
        done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--reproduce", "made", cwd=place)
        assert not server.bodies
    assert done.returncode == 2
    assert (place / "made" / "reproduce.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--concurrency", "many"], "is not a list of numbers"),
        (["--concurrency", ""], "is not a list of numbers"),
        (["--concurrency", "8,-1"], "is not a list of numbers"),
        (["--concurrency", "8;16"], "is not a list of numbers"),
        (["--concurrency", "1"], "is not above the 1 of the reference"),
        (["--concurrency", "0"], "is not above the 1 of the reference"),
        (["--concurrency", "4", "--alone", "4"], "is not above the 4"),
        (["--concurrency", "8,8"], "names a level twice"),
        (["--concurrency", "999999"], "at most 100,000"),
        (["--alone", "5"], "--alone"),
        (["--docs", "0"], "--docs"),
        (["--traffic", "1"], "--traffic"),
        (["--abort", "2"], "--abort"),
        (["--vary", " "], "is no name"),
        (["--vary", "x" * 61], "is no name"),
        (["--vary", "a\nb"], "is no name"),
        (["--max-tokens", "0"], "--max-tokens"),
        (["--tasks", "nothing"], "nothing"),
        (["--no-ask"], "no answer is there yet"),
        (["--set", "backend=recorded", "--set", "tokenizer=null"], "asks no server"),
        (["--set", "base_url=http://127.0.0.1:9/v1"], "does not answer"),
        (["--set", "base_url="], "base_url"),
        (["--set", "no_such_key=1"], "no_such_key"),
        (["--html", "no/such/folder/x.html", "--view", "odd"], "--view"),
        (["--concurency", "8"], "--concurrency"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_message(words: list[str], what: str, place: Path) -> None:
    done = cli("load", "work_dir", *words, cwd=place)
    assert done.returncode == 2, done.stderr
    assert what in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_no_pack_is_one_message(tmp_path: Path) -> None:
    done = cli("load", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing" in done.stderr


def test_answers_of_another_address_are_not_mixed(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "20", "--traffic", "0")
    with load_server(place / "model") as server:
        run(place, server, *words)
    with load_server(place / "model") as other:
        done = cli("load", "work_dir", "--set", f"base_url={other.url}", *words[:2], "--docs", "30", cwd=place)
        assert done.returncode == 2
        assert "--vary NAME" in done.stderr
        assert run(place, other, *words[:2], "--docs", "30", "--same-deployment")["levels"]


def test_two_at_once_in_one_folder_are_one_message(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "40", "--traffic", "0")
    with load_server(place / "model") as server:
        server.seconds = 0.1
        running = started("load", "work_dir", "--set", f"base_url={server.url}", *words, cwd=place)
        while not server.prompts():
            threading.Event().wait(0.05)
        done = cli("load", "work_dir", "--set", f"base_url={server.url}", *words, cwd=place)
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert done.returncode == 2
    assert "another run is writing this answers file" in done.stderr


def test_a_key_that_the_endpoint_repeats_is_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "q" * 40
    monkeypatch.setenv("OWN_KEY", key)

    def repeats(text: str, now: int) -> str:
        return f"{text} {key}" if now > 2 else text

    with load_server(place / "model", spoil=repeats, key=key) as server:
        words = ("--concurrency", "6", "--docs", "30", "--set", "api_key_env=OWN_KEY", "--html", "page.html")
        done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--json", *words, cwd=place)
        assert server.bodies
    written = [path.read_text("utf-8", errors="replace") for path in place.rglob("*") if path.is_file()]
    assert not any(key in text for text in (done.stdout, done.stderr, *written))
    assert done.returncode in (0, 1, 3), done.stderr


@pytest.mark.parametrize("damage", ["not JSON", "[]", '{"name": 1}', '{"levels": [[1]], "name": "x"}', "\x00"])
def test_a_damaged_result_of_another_deployment_is_left_out(damage: str, place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "12", "--traffic", "0")
    other = place / "out" / "load" / "other"
    other.mkdir(parents=True)
    (other / "load.json").write_text(damage)
    with load_server(place / "model") as server:
        done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--json", *words, cwd=place)
    assert json.loads(done.stdout)["other_deployments"] == []
    assert "left out" in done.stderr


def test_a_damaged_file_of_figures_is_as_none(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "12", "--traffic", "0")
    with load_server(place / "model") as server:
        first = run(place, server, *words)
        for path in (place / "out").rglob("engine.json"):
            path.write_text('{"traffic": 3, "figures": [{"x": 1}]}')
        assert levels(run(place, server, *words)) == levels(first)


def test_a_server_that_fails_half_of_its_requests_is_not_called_the_same(place: Path) -> None:
    def faults(number: int, body: dict[str, Any]) -> str | None:
        return "refused" if server.now > 2 and number % 2 else None

    with load_server(place / "model", faults=faults, tied=0) as server:
        tree = run(place, server, "--concurrency", "6", "--docs", "40", "--traffic", "0")
    assert levels(tree)[6] == "worse"
    assert dict(tree["levels"][0]["counts"]["signs"])["refused"] > 5


def test_hostile_texts_are_text_on_the_page(place: Path) -> None:
    evil = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 60

    def spoil(text: str, now: int) -> str:
        return evil if now > 2 else text

    with load_server(place / "model", spoil=spoil) as server:
        done = cli(
            "load", "work_dir", "--set", f"base_url={server.url}", "--concurrency", "6", "--docs", "20", "--html",
            "page.html", "--markdown", "page.md", cwd=place,
        )  # fmt: skip
    assert done.returncode == 1, done.stderr
    page = (place / "page.html").read_text("utf-8")
    assert "<script>alert" not in page
    for text in (page, done.stdout, (place / "page.md").read_text("utf-8")):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_the_call_says_what_the_command_says(place: Path) -> None:
    with load_server(place / "model") as server:
        found = load(
            pack=place / "work_dir", concurrency=(6,), docs=12, traffic=0.0, output=place / "own",
            overrides=[f"base_url={server.url}", f"tokenizer={place / 'model'}"],
        )  # fmt: skip
    assert found.summary.startswith("undecided at 6 in flight: no corrupted answer, but 12 answers may hide")
    assert (place / "own" / "load" / "plain" / "alone").is_dir()
    with pytest.raises(UserError, match="names no level"):
        load(pack=place / "work_dir", concurrency=())


def test_the_task_may_be_left_out(place: Path) -> None:
    done = cli("load", "work_dir", "--tasks", f"-{TASK}", cwd=place)
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("page", "pool"),
    [
        ("vllm:gpu_cache_usage_perc 0.5\n", 0.5),
        ('sglang:token_usage{model="x"} 0.25\n', 0.25),
        ("llamacpp:kv_cache_usage_ratio 1e-1\n", 0.1),
        ("vllm:kv_cache_usage_perc 0.2\nvllm:kv_cache_usage_perc 0.7\n", 0.7),
        ("vllm:kv_cache_usage_perc nan\n", None),
        ("vllm:kv_cache_usage_perc -1\n", None),
        ("vllm:kv_cache_usage_perc 1e400\n", None),
        ("<html>", None),
        ("", None),
    ],
)
def test_figures_of_engines_are_read(page: str, pool: float | None) -> None:
    figures = parse_metrics(page, 1.0)
    assert (figures.pool if figures else None) == pool


def test_a_search_ends() -> None:
    """Whatever the levels are, it asks between the good and the bad, and nothing where both are close."""
    assert choose_next_level([], 1) is None


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield


@pytest.mark.plugin("meta")
@pytest.mark.plugin("chat")
def test_a_chat_endpoint_is_asked_with_messages_and_its_texts_are_compared(tmp_path: Path) -> None:
    """It scores no texts. Under load it loses the ends of answers."""
    times, made_up = Counter[str](), set()

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = json.dumps(body["messages"])
        times[asked] += 1
        if "Tell a long story" in asked or "Say one word" in asked:
            made_up.add(asked)
        threading.Event().wait(0.03)
        text = (
            f"Let me think about {hash(asked) % 10**9} and its letters. The best answer is {'ABCD'[hash(asked) % 4]}."
        )
        is_cut = times[asked] == 2  # the first time it is asked alone, the third again
        tree = completion(text[: len(text) // 2] if is_cut else text)
        tree["usage"] = {"prompt_tokens": 7, "completion_tokens": 30}
        return tree

    with ChatServer(reply) as server:
        keys = {
            "model_name": "tiny", "evals_dataset": "sample", "tasks": "meta_mmlu_pro_instruct", "backend": "chat",
            "base_url": server.url, "max_model_len": 65536,
        }  # fmt: skip
        (tmp_path / "eval_config.yaml").write_text(json.dumps(keys), encoding="utf-8")
        done = cli("load", "--concurrency", "10", "--json", cwd=tmp_path)
    tree = json.loads(done.stdout)
    assert levels(tree) == {10: "worse"}, done.stderr
    assert dict(tree["levels"][0]["counts"]["signs"])["lost text"] >= 2
    assert "backend chat scores no texts" in tree["notes"][0]
    assert made_up
