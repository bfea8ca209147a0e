"""A server whose answers are drawn from a known distribution, and what ``meta-eval equality`` says of two of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from command import cli
from fake_server import Body, FakeServer

Draw = Callable[[str, random.Random], str]

_WORDS = ("amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "larch")


def draw_answer(
    prompt: str, rng: random.Random, *, temperature: float = 1.0, model: str = "", first: float = 0.6
) -> str:
    """An answer of four words. The first word that is drawn says which the others are."""
    own = random.Random(f"{model} {prompt}")
    weights = [weight ** (1 / temperature) for weight in (first, 0.7 * (1 - first), 0.3 * (1 - first))]
    chosen = rng.choices(own.sample(_WORDS, 3), weights)[0]
    return " ".join([chosen, *random.Random(f"{model} {prompt} {chosen}").sample(_WORDS, 3)])


def sure(prompt: str, rng: random.Random, model: str = "") -> str:
    """A model that is nearly sure, of which few answers tell much."""
    return draw_answer(prompt, rng, first=0.97, model=model)


def mixed(share: float, draw: Callable[..., str] = draw_answer) -> Draw:
    """So many answers are of another model."""
    return lambda prompt, rng: draw(prompt, rng, model="other" if rng.random() < share else "")


def sampled_server(
    draw: Draw = draw_answer, *, spoil: Callable[[Body, Body], Body] | None = None, **more: Any
) -> FakeServer:
    """A server that draws an answer by prompt and seed.

    Args:
        draw: Draws an answer.
        spoil: Changes the response, by the request.
        more: Of `FakeServer`.
    """

    def complete(body: Body, _: object) -> dict[str, Any]:
        text = draw(body["prompt"], random.Random(f"{body['prompt']} {body.get('seed')}"))
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        answer = {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}
        return answer if spoil is None else spoil(body, answer)

    return FakeServer(complete=complete, **more)


def equality(place: Path, a: FakeServer, b: FakeServer, *words: str, code: int | None = None) -> dict[str, Any]:
    """What ``meta-eval equality --json`` prints of two servers. It must end with ``code``, if that is given."""
    done = cli("equality", a.url, b.url, "--pack", "work_dir", "--json", *words, cwd=place)
    assert code is None or done.returncode == code, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree


def write_answers(path: Path, draw: Draw, seed: int, *, prompts: int = 12, samples: int = 10, **fields: Any) -> Path:
    """A file of answers as `meta-eval run` writes them."""
    lines = [
        {
            "id": f"task/{doc}/{number}", "prompt_sha256": f"{doc:064x}", "request_sha256": f"{doc:064x}",
            "text": draw(f"prompt {doc}", random.Random(f"{seed} {doc} {number}")), **fields,
        }
        for doc in range(prompts) for number in range(samples)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_run(folder: Path, draw: Draw, seed: int, *, prompts: int = 12, samples: int = 10, **settings: Any) -> Path:
    """A results folder of lm_eval, whose task has ``repeats``."""
    folder.mkdir(parents=True)
    generation = {"until": ["\n"], "do_sample": True, "temperature": 1.0, **settings}
    lines = []
    for doc in range(prompts):
        texts = [draw(f"prompt {doc}", random.Random(f"{seed} {doc} {number}")) for number in range(samples)]
        lines.append({
            "doc_id": doc, "doc": {"q": doc}, "target": "x", "arguments": {"gen_args_0": {"arg_0": f"prompt {doc}", "arg_1": generation}},
            "resps": [texts], "filtered_resps": texts[:1], "filter": "none", "metrics": ["exact_match"], "exact_match": 0.0,
        })  # fmt: skip
    time = f"2026-11-30T00-00-{seed:02}.000000"
    (folder / f"samples_task_{time}.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )
    return folder
