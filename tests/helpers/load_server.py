"""A server of the model of ``benchmarks/load_model.py``, which may be sound or faulty when it is full; and its pack."""

from __future__ import annotations

import functools
import json
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_server import Body, FakeServer
from places import REPOSITORY
from shared import once
from small_model import write_tokenizer

sys.path.append(str(REPOSITORY / "benchmarks"))

from load_faults import Faulty
from load_model import FAR, Model

TASK = "own_load"
DOCS = 240


def load_pack(temporary: pytest.TempPathFactory) -> Path:
    """A folder, made once, with ``eval_config.yaml``, its pack, and the tokenizer of the model."""
    return once(temporary, "own_load", make_load_pack)


def make_load_pack(folder: Path) -> None:
    """Fill a folder with it."""
    from command import cli
    from lm_eval.api.model import LM
    from recorded_runs import record

    model = Model()

    class Recorded(LM):  # type: ignore[misc]
        tokenizer_name = "own"

        def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
            return [model.write(request.args[0]) for request in requests]

        def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    tasks = folder / "tasks"
    tasks.mkdir()
    questions = [f"Question {number}: which letter?\n" for number in range(DOCS)]
    rows = [{"question": question, "gold": model.find_gold(question)} for question in questions]
    (tasks / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    extract = {"function": "regex", "regex_pattern": "best answer is ([A-J])"}
    task = {
        "task": TASK, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
        "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{question}}",
        "doc_to_target": "{{gold}}", "metadata": {"version": 1.0},
        "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 400, "do_sample": False},
        "filter_list": [{"name": "strict", "filter": [extract, {"function": "take_first"}]}],
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    (tasks / f"{TASK}.yaml").write_text(yaml.dump(task), encoding="utf-8")
    with chdir(tasks):
        record(tasks, folder / "run", [TASK], model=Recorded())
    write_tokenizer(folder / "model")
    config = {
        "evals_dataset": "run", "template_dir": "tasks", "tasks": TASK, "model_name": "tiny", "tokenizer": "model",
        "backend": "server", "base_url": "http://127.0.0.1:1/v1", "max_model_len": 4096, "output_path": "out",
    }  # fmt: skip
    (folder / "eval_config.yaml").write_text(yaml.dump(config), encoding="utf-8")
    done = cli("prepare", cwd=folder)
    assert done.returncode == 0, done.stderr


def load_server(
    folder: Path, fault: str = "none", share: float = 0.0, *, above: int = 4, second: float = 0.5, tied: float = 0.01,
    scores: bool = True, spoil: Callable[[str, int], str] | None = None, rounds: int | None = None, **more: Any,
) -> FakeServer:  # fmt: skip
    """A server of the model.

    Args:
        folder: Of the tokenizer.
        fault, share, above: As of `Faulty`.
        second: The probability of the second of two tied words where more than one request is in flight.
        tied: Of the model.
        scores: Whether it scores texts.
        spoil: Changes an answer, by its text and the requests in flight, in place of a fault.
        rounds: How often each prompt is asked: it is full at all but the first and the last time, however many are in
            flight. None means that it is full where more than one request is in flight.
        more: Of `FakeServer`.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model, faulty = Model(tied=tied), Faulty(fault, share, above)
    prompts: Counter[tuple[int, ...]] = Counter()
    lock = threading.Lock()

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text).ids
        return ids

    @functools.cache
    def count_letters(token: int) -> int:
        return max(1, len(tokenizer.decode([token])))

    @functools.cache
    def begin_of(word: str) -> int:
        return encode(word)[1]

    def score(ids: list[int]) -> list[Any]:
        with lock:
            sizes = sorted({len(some) for some in prompts if len(some) < len(ids)}, reverse=True)
            begin = next((size for size in sizes if tuple(ids[:size]) in prompts), 0)
        text = tokenizer.decode(ids[begin:])
        places: list[Any] = [None] * begin
        at, scored = 0, model.score(tokenizer.decode(ids[1:begin], skip_special_tokens=False), text)
        for token in ids[begin:]:
            size = count_letters(token)
            here = scored[at : at + size]
            distance, likeliest = max(here, default=(0.0, ""))
            entry = {str(token): {"logprob": -0.1 - distance, "rank": 1 if not distance else 2}}
            if distance:
                entry[str(begin_of(likeliest))] = {"logprob": -0.1, "rank": 1}
            places.append(entry)
            at += size
        return places

    def complete(body: Body, _: Callable[[str], list[int]]) -> dict[str, Any]:
        ids = body["prompt"] if isinstance(body["prompt"], list) else encode(body["prompt"])
        usage = {"prompt_tokens": len(ids)}
        if "prompt_logprobs" in body:
            choice = {"index": 0, "text": "x", "finish_reason": "length", "prompt_logprobs": score(ids)}
            return {"choices": [choice], "usage": {**usage, "completion_tokens": 1}}
        if server.now > 1:
            time.sleep(0.04)  # so that as many are in flight as the client sends at once
        with lock:
            prompts[tuple(ids)] += 1
            in_flight = server.now if rounds is None else 1 + above * (1 < prompts[tuple(ids)] < rounds)
            is_full = in_flight > 1
            faulty.in_flight = in_flight
            # Drawn anew for each prompt, so that it does not depend on the order in which they come.
            text = model.write(tokenizer.decode(ids[1:]), random.Random(str(ids)), second if is_full else 0.0)
        tokens = len(encode(text))
        text = faulty.spoil(text, faulty.choose(body["max_tokens"])) if spoil is None else spoil(text, in_flight)
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        return {"choices": [choice], "usage": {**usage, "completion_tokens": tokens}}

    takes = {} if scores else {"takes": frozenset(("model", "prompt", "max_tokens", "temperature", "stop", "seed"))}
    server = FakeServer(encode=encode, complete=complete, **takes, **more)
    return server


def run_load(place: Path, server: FakeServer, *words: str, code: int | None = None) -> dict[str, Any]:
    """What ``meta-eval load --json`` prints. It must end with ``code``, if that is given."""
    from command import cli

    done = cli("load", "work_dir", "--set", f"base_url={server.url}", "--json", *words, cwd=place)
    assert code is None or done.returncode == code, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree


@dataclass(frozen=True)
class Finished:
    """A load that has ended: its folder, its server, the words after ``load work_dir``, and what it printed."""

    place: Path
    server: FakeServer
    words: tuple[str, ...]
    tree: dict[str, Any]

    def copied(self, to: Path) -> Finished:
        """The same in another folder."""
        return replace(self, place=Path(shutil.copytree(self.place, to)))


def read_levels(tree: dict[str, Any]) -> dict[int, str]:
    """The outcome of each level."""
    return {level["level"]: level["decision"]["outcome"] for level in tree["levels"]}


__all__ = ["DOCS", "FAR", "TASK", "Finished", "load_pack", "load_server", "make_load_pack", "read_levels", "run_load"]
