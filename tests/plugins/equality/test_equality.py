"""equality: identical endpoints are the same, others different; what is asked, kept and resumed."""

from __future__ import annotations

import json
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from command import cli
from fake_server import Body
from forked import started
from marks import thorough
from sampled_server import draw_answer, equality, mixed, sampled_server, sure, write_answers, write_run

from meta_eval.plugins.equality.api import equality as call
from meta_eval.plugins.equality.two_samples import PromptSamples, run_test, simulate_power

FEW = ("--prompts", "12", "--samples", "6")


def cold(prompt: str, rng: random.Random) -> str:
    return draw_answer(prompt, rng, temperature=0.3)


def test_two_servers_of_one_model_are_the_same_where_the_answers_suffice(place: Path) -> None:
    with sampled_server(sure) as a, sampled_server(sure) as b:
        tree = equality(place, a, b, "--prompts", "24", "--samples", "16", code=0)
    assert tree["outcome"] == "same"
    assert tree["power"] >= 0.8
    assert tree["answers_needed"] is None


def test_two_servers_of_one_model_are_undecided_where_the_answers_are_few(place: Path) -> None:
    with sampled_server() as a, sampled_server() as b:
        tree = equality(place, a, b, *FEW, code=3)
    assert tree["answers_needed"] is None or tree["answers_needed"] > 6
    assert tree["summary"].startswith("undecided: p = ")


def cut(body: Body, answer: Body) -> Body:
    choice = answer["choices"][0]
    return {**answer, "choices": [{**choice, "text": choice["text"][:9], "finish_reason": "length"}]}


@pytest.mark.parametrize(
    ("draw", "spoil"),
    [
        (lambda prompt, rng: draw_answer(prompt, rng, model="other"), None),
        (mixed(0.5), None),
        (cold, None),
        (lambda prompt, rng: f"Sure! {draw_answer(prompt, rng)}", None),
        (draw_answer, cut),
        (lambda prompt, rng: "" if rng.random() < 0.5 else draw_answer(prompt, rng), None),
    ],
    ids=["another", "half another", "temperature", "template", "cut", "half empty"],
)
def test_another_server_is_different(draw: Any, spoil: Any, place: Path) -> None:
    with sampled_server() as a, sampled_server(draw, spoil=spoil) as b:
        tree = equality(place, a, b, "--prompts", "20", "--samples", "10", code=1)
    assert tree["outcome"] == "different"
    assert tree["p"] <= 0.01


def test_a_tenth_of_another_model_is_not_the_same(place: Path) -> None:
    with sampled_server(sure) as a, sampled_server(mixed(0.1, sure)) as b:
        tree = equality(place, a, b, "--prompts", "24", "--samples", "16")
    assert tree["outcome"] != "same"


def test_requests_are_sampled_short_and_each_has_a_seed_of_its_own(place: Path) -> None:
    with sampled_server() as a, sampled_server() as b:
        equality(place, a, b, *FEW, "--max-tokens", "20")
        bodies = [body for server in (a, b) for body in server.bodies if isinstance(body.get("prompt"), str)]
    asked = [body for body in bodies if body["prompt"].startswith("Question")]
    assert len(asked) == 2 * 12 * 6
    assert {(body["temperature"], body["top_p"], body["max_tokens"]) for body in asked} == {(1.0, 1.0, 20)}
    assert len({body["seed"] for body in asked}) == len(asked)


def test_both_are_asked_in_the_same_minutes(place: Path) -> None:
    with sampled_server(seconds=0.002) as a, sampled_server() as b:
        equality(place, a, b, *FEW, "--set", "concurrency=2")
    folder = place / "out" / "equality"
    times = []
    for side in "ab":
        (path,) = (folder / side).glob("*.jsonl")
        lines = map(json.loads, path.read_text("utf-8").splitlines())
        times.append(sorted(line["started"] for line in lines if "started" in line))
    assert times[0][0] < times[1][len(times[1]) // 2] < times[0][-1]
    assert times[1][0] < times[0][len(times[0]) // 2] < times[1][-1]


@thorough
def test_the_same_command_asks_nothing_again_and_says_the_same(place: Path) -> None:
    with sampled_server() as a, sampled_server() as b:
        first = equality(place, a, b, *FEW)
        asked = len(a.prompts()), len(b.prompts())
        assert equality(place, a, b, *FEW) == first
        assert (len(a.prompts()), len(b.prompts())) == asked
        more = equality(place, a, b, "--prompts", "12", "--samples", "8")
        assert len(a.prompts()) - asked[0] == 12 * 2
    assert more["answers"] == 8
    with sampled_server(port=a.port), sampled_server(port=b.port):
        pass
    done = cli("equality", a.url, b.url, "--pack", "work_dir", "--json", "--no-ask", *FEW, cwd=place)
    tree = json.loads(done.stdout)
    assert {**tree, "sides": 0, "tables": 0} == {**first, "sides": 0, "tables": 0}


def test_the_price_is_said_before_the_first_request(place: Path) -> None:
    with sampled_server() as a, sampled_server() as b:
        prices = ("--set", "price_per_million_tokens={prompt: 100000, completion: 1000000}")
        done = cli("equality", a.url, b.url, "--pack", "work_dir", *FEW, *prices, cwd=place)
    said = " ".join(done.stderr.split())
    assert "12 prompts at most, 6 answers of each side to each, of at most 32 tokens" in said
    assert said.count("72 requests, about") == 2
    assert "at most 2,304 tokens of answers, at most 2,3" in said


def test_it_resumes_after_an_interrupt(place: Path) -> None:
    words = ("--prompts", "12", "--samples", "10", "--set", "concurrency=2")
    with sampled_server(seconds=0.03) as a, sampled_server(seconds=0.03) as b:
        running = started("equality", a.url, b.url, "--pack", "work_dir", *words, cwd=place)
        while len(a.prompts()) < 40:
            threading.Event().wait(0.02)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
        assert running.returncode == 130, errors
        assert "answers are saved. Rerun the same command to resume" in " ".join(errors.split())
        a.seconds = b.seconds = 0.0
        before = len(a.prompts())
        equality(place, a, b, *words)
        assert len(a.prompts()) - before < 100


def test_an_interrupt_keeps_what_the_faster_side_has_answered(place: Path) -> None:
    words = ("--prompts", "12", "--samples", "10", "--set", "concurrency=8")
    with sampled_server() as a, sampled_server(seconds=0.4) as b:
        running = started("equality", a.url, b.url, "--pack", "work_dir", *words, cwd=place)
        while len(b.prompts()) < 8:
            threading.Event().wait(0.02)
        threading.Event().wait(0.2)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
        assert running.returncode == 130, errors
        (journal,) = place.rglob("equality/a/*.jsonl")
        kept = [line for line in journal.read_text(encoding="utf-8").splitlines() if '"text"' in line]
        assert 16 <= len(kept) == len(a.prompts())


def test_recorded_answers_are_judged_without_asking(tmp_path: Path) -> None:
    write_answers(tmp_path / "a.jsonl", sure, 1, prompts=24, samples=16)
    write_answers(tmp_path / "b.jsonl", sure, 2, prompts=24, samples=16)
    write_answers(tmp_path / "c.jsonl", mixed(0.5, sure), 3, prompts=24, samples=16)
    for other, code in (("b.jsonl", 0), ("c.jsonl", 1), ("a.jsonl", 3)):
        done = cli("equality", "a.jsonl", other, "--json", cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
    assert "they are a copy, or were drawn with the same seeds" in json.loads(done.stdout)["summary"]


@thorough
def test_a_run_with_repeats_is_judged(tmp_path: Path) -> None:
    write_run(tmp_path / "a", sure, 1, prompts=24, samples=16)
    write_run(tmp_path / "b", sure, 2, prompts=24, samples=16)
    write_run(tmp_path / "c", mixed(0.5, sure), 3, prompts=24, samples=16)
    for other, code in (("b", 0), ("c", 1)):
        done = cli("equality", "a", other, "--json", cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr


def test_pages_show_both_sides_and_hostile_texts_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\u202e\x1b[31m"
    write_answers(tmp_path / "a.jsonl", draw_answer, 1)
    write_answers(tmp_path / "b.jsonl", lambda prompt, rng: evil + draw_answer(prompt, rng), 2)
    words = ("--html", "page.html", "--markdown", "page.md")
    done = cli("equality", "a.jsonl", "b.jsonl", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert "median characters" in page
    for text in (page, done.stdout, (tmp_path / "page.md").read_text("utf-8")):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_the_call_says_what_the_command_says(tmp_path: Path) -> None:
    paths = [write_answers(tmp_path / f"{seed}.jsonl", draw_answer, seed) for seed in (1, 2)]
    found = call(*paths)
    done = cli("equality", *paths, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["summary"] == found.summary
    assert found.exit_code == done.returncode == 3


def make_samples(
    draw_b: Any, seed: int, prompts: int = 6, answers: int = 5, draw_a: Any = draw_answer
) -> list[PromptSamples]:
    return [
        PromptSamples(
            [draw_a(f"p {prompt}", random.Random(f"a {seed} {prompt} {n}")) for n in range(answers)],
            [draw_b(f"p {prompt}", random.Random(f"b {seed} {prompt} {n}")) for n in range(answers)],
        )
        for prompt in range(prompts)
    ]  # fmt: skip


def test_identical_sources_are_called_different_as_seldom_as_promised() -> None:
    wrong = sum(run_test(make_samples(draw_answer, seed), 199).p <= 0.01 for seed in range(150))
    assert wrong <= 6  # 1.5 expected; more than six in one of a thousand


def test_the_simulated_power_grows_with_the_answers_and_the_same_answers_say_the_same() -> None:
    few, many = (make_samples(sure, 1, prompts, answers, sure) for prompts, answers in ((4, 4), (24, 16)))
    powers = [simulate_power(samples, 40).power for samples in (few, many)]
    assert powers[0] < 0.5 < powers[1]
    assert run_test(few) == run_test(few)
    assert simulate_power(few, 40) == simulate_power(few, 40)
