"""load: sound servers are the same, faulty ones are worse; what is asked, kept, resumed and refused."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command import cli
from forked import started
from load_server import DOCS, Finished, load_server, read_levels, run_load
from marks import few, thorough
from places import THOROUGH

from meta_eval.plugins.load import engine_figures


@thorough
def test_a_sound_server_whose_near_ties_turn_is_the_same(place: Path) -> None:
    with load_server(place / "model") as server:
        tree = run_load(place, server, "--concurrency", "12", *([] if THOROUGH else ["--traffic", "0"]), code=0)
    assert read_levels(tree) == {12: "same"}
    assert tree["near_tie_nats"] == 1.0
    counts = [level["counts"] for level in tree["levels"]]
    assert all(one["answers"] == DOCS and one["corrupted"] == one["parted"] == 0 for one in counts)
    assert sum(one["near_ties"] for one in counts) > 0  # else nothing was tried


@pytest.mark.parametrize(
    ("fault", "share", "sign"),
    few(
        [("exchange", 0.2, "another request's text"), ("splice", 0.2, "an unlikely token"), ("tail", 0.2, "lost text")],
        2,
    ),
)
def test_a_faulty_server_is_worse_from_the_level_on_at_which_it_is(
    fault: str, share: float, sign: str, place: Path
) -> None:
    with load_server(place / "model", fault, share, above=6) as server:
        tree = run_load(place, server, "--concurrency", "4,12", "--traffic", "0", "--docs", "60", code=1)
    assert read_levels(tree)[12] == "worse"
    assert read_levels(tree)[4] != "worse"
    assert "from 12 in flight on (not at 4)" in tree["summary"]
    assert sign in {sign for one in tree["corrupted"] for sign in one["signs"]}
    first = tree["corrupted"][0]
    assert first["alone"] != first["loaded"]


def test_without_log_probabilities_signs_in_the_text_suffice(place: Path) -> None:
    with load_server(place / "model", "tail", 0.2, above=6, scores=False) as server:
        tree = run_load(place, server, "--concurrency", "12", "--traffic", "0", "--docs", "40", code=1)
    assert tree["near_tie_nats"] is None
    assert any("near ties are not known" in note for note in tree["notes"])


@thorough
def test_without_log_probabilities_no_fault_is_seen_at_best(place: Path) -> None:
    with load_server(place / "model", tied=0, scores=False) as server:
        words = ("--concurrency", "24", "--traffic", "0", "--docs", "200", "--html", "page.html")
        tree = run_load(place, server, *words, code=0)
    assert tree["summary"].startswith("no fault seen under load up to 24 in flight")
    assert "no fault seen" in (place / "page.html").read_text(encoding="utf-8")


def test_an_answer_that_goes_on_behind_its_stop_text_is_a_sure_sign(place: Path) -> None:
    def go_on(text: str, now: int) -> str:
        return f"{text}\n\nQuestion: and now?" if now > 2 else text

    with load_server(place / "model", tied=0, spoil=go_on, scores=False) as server:
        tree = run_load(place, server, "--concurrency", "6", "--docs", "12", "--traffic", "0", code=1)
    assert dict(tree["levels"][0]["counts"]["signs"])["went on behind its stop text"] >= 2


@pytest.mark.parametrize(
    ("pages", "patience", "is_idle"),
    [
        (["vllm:num_requests_running 2\n", "vllm:num_requests_running 0\nvllm:num_requests_waiting 1\n",
          "vllm:num_requests_running 0\n"], 9.0, True),
        (["vllm:num_requests_running 1\n"] * 99, 0.0, False),
        ([None], 0.01, True),
        (["<html>"], 0.01, True),
    ],
)  # fmt: skip
def test_alone_begins_when_the_server_is_idle(
    pages: list[str | None], patience: float, is_idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Server:
        async def read_page(self, _path: str) -> str | None:
            return pages.pop(0)

        async def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(engine_figures, "_EVERY_S", 0.001)
    monkeypatch.setattr(engine_figures, "_IDLE_S", 0.01)
    client: Any = SimpleNamespace(connect_again=lambda: [Server()])
    assert engine_figures.wait_until_idle(client, patience) == is_idle
    assert not pages or not is_idle


@thorough
def test_a_slow_server_that_is_often_busy_is_not_worse(place: Path) -> None:
    with load_server(place / "model", faults=lambda number, _: "busy" if number % 20 == 3 else None,
                     retry_after=0.05) as server:  # fmt: skip
        tree = run_load(place, server, "--concurrency", "12", "--docs", "40")
    assert read_levels(tree)[12] != "worse"
    assert tree["levels"][0]["counts"]["answers"] == 40


def test_verdicts_that_are_lost_without_any_sign_are_enough(place: Path) -> None:
    """Every answer is another one that the model could give, and wrong."""
    letters = "ABCDEFGHIJ"

    def wrong(text: str, now: int) -> str:
        if now < 3 or not text.endswith("."):
            return text
        return f"{text[:-2]}{letters[(letters.index(text[-2]) + 1) % 10]}."

    with load_server(place / "model", spoil=wrong, scores=False) as server:
        tree = run_load(place, server, "--concurrency", "12", "--traffic", "0", "--docs", "40", code=1)
    (level,) = tree["levels"]
    assert level["verdicts"]["lost"] > 20
    assert "verdicts lost" in level["decision"]["reason"]


def test_no_more_requests_are_in_flight_than_named(place: Path) -> None:
    with load_server(place / "model") as server:
        tree = run_load(place, server, "--concurrency", "10", "--docs", "20", "--traffic", "0.5", "--abort", "0")
        assert 6 <= server.most <= 10
    traffic = tree["levels"][0]["traffic"]
    assert traffic["answered"] > 0
    assert traffic["given_up"] == 0
    made_up = [prompt for prompt in server.prompts() if len(json.loads(prompt)) > 60]
    assert made_up  # texts of their own


def test_made_up_requests_are_given_up_as_clients_do(place: Path) -> None:
    def wait(text: str, now: int) -> str:
        """Only a full server is slow, so that what is asked alone takes no time."""
        if now > 2:
            threading.Event().wait(0.2)
        return text

    with load_server(place / "model", tied=0, spoil=wait) as server:
        tree = run_load(place, server, "--concurrency", "8", "--docs", "12", "--abort", "1")
    assert tree["levels"][0]["traffic"]["given_up"] > 0


def test_the_same_command_asks_nothing_again_and_says_the_same(finished: Finished) -> None:
    server, words, first = finished.server, finished.words, finished.tree
    asked = len(server.prompts())
    again = run_load(finished.place, server, *words)
    assert len(server.prompts()) == asked > 0
    without = cli("load", "work_dir", "--no-ask", "--json", *words, cwd=finished.place)
    assert without.returncode != 2, without.stderr
    for tree in (again, json.loads(without.stdout)):
        assert read_levels(tree) == read_levels(first)
        assert [level["counts"] for level in tree["levels"]] == [level["counts"] for level in first["levels"]]


def test_too_few_docs_to_call_a_level_the_same_are_said_before_the_first_request(place: Path) -> None:
    with load_server(place / "model") as server:
        address = f"base_url={server.url}"
        words = ("--concurrency", "2", "--docs", "4", "--traffic", "0")
        done = cli("load", "work_dir", "--set", address, *words, cwd=place)
    assert "so few docs can show a fault, but not its absence: that takes 195 docs or more" in done.stderr


def test_a_run_that_was_interrupted_goes_on(place: Path) -> None:
    words = ("--concurrency", "6", "--docs", "40", "--traffic", "0")
    with load_server(place / "model") as server:
        server.seconds = 0.05
        running = started("load", "work_dir", "--set", f"base_url={server.url}", *words, cwd=place)
        while len(server.prompts()) < 10:
            threading.Event().wait(0.02)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate()
        assert running.wait() == 130
        assert "Rerun the same command to resume" in error
        server.seconds = 0.0
        before = len(server.bodies)
        tree = run_load(place, server, *words)
        asked = [body for body in server.bodies[before:] if "prompt_logprobs" not in body]
        assert len(asked) < 40 * 3
    assert tree["levels"][0]["counts"]["answers"] == 40


@thorough
def test_levels_are_searched_between_the_good_and_the_bad(place: Path) -> None:
    with load_server(place / "model", "exchange", 0.5, above=9) as server:
        tree = run_load(place, server, "--concurrency", "4,40", "--traffic", "0", "--docs", "40", "--search", code=1)
    outcomes = read_levels(tree)
    worse = min(level for level, outcome in outcomes.items() if outcome == "worse")
    good = max(level for level in outcomes if level < worse)
    assert good <= 13
    assert worse <= 1.4 * good
    assert 10 <= worse <= 20


@thorough
def test_the_use_of_the_pool_stands_beside_the_answers(place: Path) -> None:
    def page() -> str:
        return (
            "# HELP vllm:kv_cache_usage_perc\n"
            # From the first full moment on, since a page is read a few times a second only.
            f'vllm:kv_cache_usage_perc{{engine="0"}} {0.95 if server.most > 4 else 0.1}\n'
            f"vllm:num_requests_running {server.now}\nvllm:num_preemptions_total 3\n"
        )

    with load_server(place / "model", metrics=page) as server:
        server.seconds = 0.05
        tree = run_load(place, server, "--concurrency", "12", "--docs", "60")
    (level,) = tree["levels"]
    assert level["pool"] == 0.95
    assert level["preemptions"] == 0
    assert sum(row[1] for row in level["by_pool"]) > 10
