"""Prompts that begin alike are asked together, and by the same server; nothing is lost or asked twice."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from command import cli
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st
from packs import some_templates
from rows import make_row, write_rows
from small_model import write_tokenizer
from tokenizers import Tokenizer

from meta_eval.ask.pending_requests import BLOCK, Beginnings, count_shared_blocks, interleave_docs

SUBJECTS, QUESTIONS = 4, 8


def order_of(prompts: list[str]) -> list[int]:
    beginnings = Beginnings()
    for doc, prompt in enumerate(prompts):
        beginnings.add(doc, prompt)
    return beginnings.order()


def test_docs_behind_one_beginning_follow_each_other() -> None:
    shots = {name: name * 3 * BLOCK for name in "abc"}
    prompts = [f"{shots[name]} {number}" for number, name in enumerate("abcabcab")]
    assert order_of(prompts) == [0, 3, 6, 1, 4, 7, 2, 5]


def test_longer_beginnings_follow_within_shorter_ones() -> None:
    common = "x" * BLOCK
    prompts = [common + name * BLOCK + str(number) for number, name in enumerate("abab")]
    prompts.insert(1, "y" * BLOCK)
    assert order_of(prompts) == [0, 3, 2, 4, 1]


def test_docs_that_share_nothing_stay_as_they_are() -> None:
    chance = random.Random(0)
    assert order_of([str(chance.random()) * BLOCK for _ in range(20)]) == list(range(20))


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 5))
def test_every_doc_is_asked_once_whatever_the_lanes(names: list[int], lanes: int) -> None:
    order = order_of([str(name) * (BLOCK + name) for name in names])
    assert sorted(interleave_docs(order, lanes)) == list(range(len(names)))


def test_alike_counts_whole_blocks() -> None:
    assert count_shared_blocks("a" * 3 * BLOCK, "a" * 2 * BLOCK + "b" * BLOCK) == 2
    assert count_shared_blocks("a" * (BLOCK - 1), "a" * (BLOCK - 1)) == 0


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task whose subjects are mixed, each behind its own long beginning."""
    place = tmp_path_factory.mktemp("prefixes")
    some_templates(place, "mmlu_pro")
    chance = random.Random(0)
    shots = [" ".join(chance.choices(["one", "two", "three", "four"], k=450)) for _ in range(SUBJECTS)]
    rows = []
    for number in range(SUBJECTS * QUESTIONS):
        row = make_row(f"What is {number} + {number}?", subtask=f"s{number % SUBJECTS}")
        (prompt,) = row["input_final_prompts"]
        row["input_final_prompts"] = [f"{shots[number % SUBJECTS]} {prompt}"]
        rows.append(row)
    write_rows(place / "Llama-3.1-8B-Instruct-evals" / "mmlu_pro.jsonl", rows)
    write_tokenizer(place / "tiny")
    settings = {
        "model_name": "tiny", "evals_dataset": "Llama-3.1-8B-Instruct-evals", "tasks": "meta_mmlu_pro_instruct",
        "backend": "server", "max_model_len": 65536, "concurrency": 2,
    }  # fmt: skip
    (place / "eval_config.yaml").write_text(json.dumps(settings))
    return place


def asked_of(project: Path, server: FakeServer) -> list[str]:
    """The prompts that a server was asked, as text, in order."""
    tokenizer = Tokenizer.from_file(str(project / "tiny" / "tokenizer.json"))
    return [tokenizer.decode(json.loads(prompt)) for prompt in server.prompts()]


def changes(subjects: list[str]) -> int:
    return sum(a != b for a, b in itertools.pairwise(subjects))


def subject(prompt: str) -> str:
    return prompt[: 2 * BLOCK]


def run(project: Path, output: Path, *servers: FakeServer, more: tuple[str, ...] = ()) -> None:
    sets = "--set", f"base_url={json.dumps([server.url for server in servers])}", "--set", f"output_path={output}"
    done = cli("run", "--no-canary", "--no-report", *sets, *more, cwd=project)
    assert done.returncode == 0, done.stderr


@pytest.mark.plugin("meta")
def test_one_server_is_asked_beginning_by_beginning(project: Path, tmp_path: Path) -> None:
    with FakeServer() as server:
        run(project, tmp_path, server)
        seen = [subject(prompt) for prompt in asked_of(project, server)]
    assert len(seen) == SUBJECTS * QUESTIONS
    assert changes(seen) <= 3 * SUBJECTS  # two are under way at a time, and may change places


@pytest.mark.plugin("meta")
def test_docs_in_a_random_order_are_asked_beginning_by_beginning_too(project: Path, tmp_path: Path) -> None:
    again = SUBJECTS * QUESTIONS // 2  # early docs alone are asked again
    with FakeServer() as server:
        run(project, tmp_path, server, more=("--stop-when-decided", "--rerun", str(again)))
        prompts = asked_of(project, server)
    first, second = prompts[:-again], prompts[-again:]
    assert len(first) == SUBJECTS * QUESTIONS
    for some in (first, second):
        assert changes([subject(prompt) for prompt in some]) <= 3 * SUBJECTS
        numbers: dict[str, list[int]] = {}
        for prompt in some:
            numbers.setdefault(subject(prompt), []).append(int(prompt.split("What is ")[1].split()[0]))
        assert any(of_subject != sorted(of_subject) for of_subject in numbers.values())


@pytest.mark.plugin("meta")
def test_each_of_two_servers_keeps_to_its_own_beginnings(project: Path, tmp_path: Path) -> None:
    with FakeServer(seconds=0.01) as first, FakeServer(seconds=0.01) as other:
        run(project, tmp_path, first, other)
        asked = [[subject(prompt) for prompt in asked_of(project, server)] for server in (first, other)]
    assert sum(map(len, asked)) == SUBJECTS * QUESTIONS
    # Those that began with it, and what a server takes that has nothing else to do.
    strangers = sum(min(asked[0].count(name), asked[1].count(name)) for name in {*asked[0], *asked[1]})
    assert strangers < SUBJECTS * QUESTIONS / 4


@pytest.mark.plugin("meta")
def test_shards_ask_what_they_asked_before_there_was_an_order(project: Path, tmp_path: Path) -> None:
    with FakeServer() as server:
        run(project, tmp_path, server, more=("--shard", "1/3"))
        numbers = sorted(int(prompt.split("What is ")[1].split()[0]) for prompt in asked_of(project, server))
    assert numbers == list(range(1, SUBJECTS * QUESTIONS, 3))
