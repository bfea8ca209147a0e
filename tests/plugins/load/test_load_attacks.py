"""load: what is refused, foreign files, keys, damage, two at once, and endpoints that lie."""

from __future__ import annotations

import json
import math
import signal
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, completion
from command import cli
from forked import started
from growth import check_growth
from load_server import TASK, Finished, load_server, read_levels, run_load
from marks import few

from meta_eval.base.errors import UserError
from meta_eval.plugins.load import load_build
from meta_eval.plugins.load.api import load
from meta_eval.plugins.load.engine_figures import parse_metrics


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
        (["--max-tokens", "0"], "--max-tokens"),
        (["--tasks", "nothing"], "nothing"),
        (["--no-ask"], "no answer is there yet"),
        pytest.param(
            ["--set", "backend=recorded", "--set", "tokenizer=null"], "asks no server", marks=pytest.mark.plugin("stand_in")
        ),
        (["--set", "base_url=http://127.0.0.1:9/v1"], "does not answer"),
        (["--set", "base_url="], "base_url"),
        (["--set", "no_such_key=1"], "no_such_key"),
        (["--html", "no/such/folder/x.html", "--view", "odd"], "--view"),
        (["--concurency", "8"], "--concurrency"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_message(words: list[str], what: str, without_answers: Path) -> None:
    done = cli("load", "work_dir", *words, cwd=without_answers)
    assert done.returncode == 2, done.stderr
    assert what in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_no_pack_is_one_message(tmp_path: Path) -> None:
    done = cli("load", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert "nothing" in done.stderr


def test_answers_of_another_address_are_not_mixed(finished: Finished) -> None:
    place, words = finished.place, ("--concurrency", "6", "--docs", "30", "--traffic", "0")
    with load_server(place / "model") as other:
        done = cli("load", "work_dir", "--set", f"base_url={other.url}", *words, cwd=place)
        assert done.returncode == 2
        assert "--output FOLDER" in done.stderr
        assert run_load(place, other, *words, "--same-deployment")["levels"]


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
    assert "Wait for it, or end it." in done.stderr


def test_a_key_that_the_endpoint_repeats_is_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "q" * 40
    monkeypatch.setenv("OWN_KEY", key)

    def repeats(text: str, now: int) -> str:
        return f"{text} {key}" if now > 2 else text

    with load_server(place / "model", spoil=repeats, key=key) as server:
        words = ("--concurrency", "6", "--docs", "12", "--set", "api_key_env=OWN_KEY", "--html", "page.html")
        done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--json", *words, cwd=place)
        assert server.bodies
    written = [path.read_text("utf-8", errors="replace") for path in place.rglob("*") if path.is_file()]
    assert not any(key in text for text in (done.stdout, done.stderr, *written))
    assert done.returncode in (0, 1, 3), done.stderr


FIGURES = {"time": 1.0, "running": None, "waiting": None, "pool": 0.5, "preemptions": 1.0}


@pytest.mark.parametrize(
    "tree",
    few([
        {"traffic": {"begun": 1e12}, "figures": []},
        {"traffic": {}, "figures": [{**FIGURES, "pool": "x"}]},
        {"traffic": {}, "figures": [{**FIGURES, "pool": 50.0}]},
        {"traffic": {}, "figures": [{**FIGURES, "time": []}]},
        {"traffic": {}, "figures": [{**FIGURES, "preemptions": math.nan}, {**FIGURES, "preemptions": math.inf}]},
        {"traffic": {"begun": math.inf}, "figures": []},
        {"traffic": 3, "figures": [{"x": 1}]},
        [],
    ], 3),
)  # fmt: skip
def test_a_damaged_file_of_figures_is_as_none(finished: Finished, tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_build, "MADE_UP", 10)
    files = list((finished.place / "out").rglob("engine.json"))
    for path in files:
        path.write_text(json.dumps(tree))
    assert files
    assert read_levels(run_load(finished.place, finished.server, *finished.words)) == read_levels(finished.tree)


def test_half_of_a_surrogate_pair_is_replaced_in_answers(place: Path) -> None:
    with load_server(place / "model", spoil=lambda text, _: f"\ud800 {text}") as server:
        run_load(place, server, "--concurrency", "4", "--docs", "4", "--traffic", "0", code=3)
    (path,) = (place / "out" / "load" / "alone").glob("*.jsonl")
    texts = [line["text"] for line in map(json.loads, path.read_text("utf-8").splitlines()) if "text" in line]
    assert len(texts) == 4
    assert all(text.startswith("\ufffd ") for text in texts)


def test_a_server_that_fails_half_of_its_requests_is_not_called_the_same(place: Path) -> None:
    times = Counter[str]()

    def faults(_: int, body: dict[str, Any]) -> str | None:
        times[asked := str(body.get("prompt"))] += 1
        return "refused" if times[asked] == 2 and sum(times.values()) % 2 else None  # alone is the first time

    with load_server(place / "model", faults=faults, tied=0) as server:
        tree = run_load(place, server, "--concurrency", "6", "--docs", "20", "--traffic", "0")
    assert read_levels(tree)[6] == "worse"
    assert dict(tree["levels"][0]["counts"]["signs"])["refused"] > 5


def test_a_server_whose_replies_are_no_answers_is_undecided(place: Path) -> None:
    with load_server(place / "model", token_ids=False) as server:
        complete, usage = server.complete, {"prompt_tokens": 7, "completion_tokens": 2}  # of no prompt here
        server.complete = lambda *asked: {**complete(*asked), "usage": usage}
        tree = run_load(place, server, "--concurrency", "3", "--docs", "4", "--traffic", "0")
    assert tree["levels"][0]["counts"]["answers"] == 0
    assert "undecided at 3 in flight" in tree["summary"]


def test_hostile_texts_are_text_on_the_page(place: Path) -> None:
    evil = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 60

    def spoil(text: str, now: int) -> str:
        return evil if now > 2 else text

    with load_server(place / "model", spoil=spoil) as server:
        done = cli(
            "load", "work_dir", "--set", f"base_url={server.url}", "--concurrency", "6", "--docs", "20",
            "--traffic", "0", "--html", "page.html", "--markdown", "page.md", cwd=place,
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
    assert (place / "own" / "load" / "alone").is_dir()
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
        ("vllm:kv_cache_usage_perc 50\n", None),
        ("vllm:kv_cache_usage_perc 1e400\n", None),
        ("vllm:kv_cache_usage_perc 0x1\nvllm:kv_cache_usage_perc 0_2\n", None),
        ("vllm:kv_cache_usage_perc 0.5 1700000000000\r\n", 0.5),
        ("<html>", None),
        ("", None),
    ],
)
def test_figures_of_engines_are_read(page: str, pool: float | None) -> None:
    figures = parse_metrics(page, 1.0)
    assert (figures.pool if figures else None) == pool


@pytest.mark.parametrize(
    "unit", ["a{\n", "a{", "a", "vllm:kv_cache_usage_perc", "vllm:kv_cache_usage_perc 1", "1", " "]
)
def test_the_time_to_read_a_page_of_metrics_grows_with_its_size(unit: str) -> None:
    pages = ((unit * size)[:size] for size in (50_000, 200_000))
    check_growth(*(partial(parse_metrics, page, 1.0) for page in pages), at_most=8, seconds=0.01)


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
    assert read_levels(tree) == {10: "worse"}, done.stderr
    assert dict(tree["levels"][0]["counts"]["signs"])["lost text"] >= 2
    assert "backend chat scores no texts" in tree["notes"][0]
    assert made_up
