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


def draw_answer(prompt: str, rng: random.Random, *, temperature: float = 1.0, model: str = "") -> str:
    """An answer of four words. The first word that is drawn says which the others are likely to be."""
    own = random.Random(f"{model} {prompt}")
    chosen = own.sample(_WORDS, 3)
    weights = [weight ** (1 / temperature) for weight in (0.6, 0.3, 0.1)]
    first = rng.choices(chosen, weights)[0]
    rest = random.Random(f"{model} {prompt} {first}").sample(_WORDS, 3)
    return " ".join([first, *rest])


def mixed(share: float) -> Draw:
    """So many answers are of another model."""
    return lambda prompt, rng: draw_answer(prompt, rng, model="other" if rng.random() < share else "")


def sampled_server(draw: Draw = draw_answer, *, spoil: Callable[[Body, str], Body] | None = None, **more: Any) -> FakeServer:
    """A server that draws an answer by prompt and seed.

    Args:
        draw: Draws an answer.
        spoil: Changes the choice, by the body and the answer.
        more: Of `FakeServer`.
    """

    def complete(body: Body, _: object) -> dict[str, Any]:
        text = draw(body["prompt"], random.Random(f"{body['prompt']} {body.get('seed')}"))
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        if spoil is not None:
            choice = spoil(body, text)
        return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}

    return FakeServer(complete=complete, **more)


def equality(place: Path, a: FakeServer, b: FakeServer, *words: str, code: int | None = None) -> dict[str, Any]:
    """What ``meta-eval equality --json`` prints of two servers. It must end with ``code``, if that is given."""
    done = cli("equality", a.url, b.url, "--pack", "work_dir", "--json", *words, cwd=place)
    assert code is None or done.returncode == code, done.stderr
    tree: dict[str, Any] = json.loads(done.stdout)
    return tree
