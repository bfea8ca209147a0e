"""selfcheck: a model whose every answer is known, asked through the client of a backend.

What is shipped (``assets/selfcheck``) is a Llama of a million parameters that knows 25 answers by heart, and a file of
what it says to 40 prompts with no BOS, one and two, computed from Llama's definition without any engine
(``tools/selfcheck_known.py``). So each check has one right answer and no threshold but that of rounding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_eval import assets
from meta_eval.answers.requests import Encoder, Kind, Request
from meta_eval.backends.registry import find_backend
from meta_eval.backends.settings import RunSettings
from meta_eval.running.client import Client, with_token_ids
from meta_eval.running.selfcheck_checks import END, MAX_MODEL_LEN, Check, Known, judge

__all__ = [
    "END", "Check", "Diagnosis", "Known", "model_folder", "read_known", "selfcheck", "serve_command", "settings_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What selfcheck found.

    Attributes:
        engine: What answered.
        seconds: That it took to answer, its start not counted.
        checks: One by one.
    """

    engine: str
    seconds: float
    checks: Sequence[Check]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


def model_folder() -> Path:
    """Where the model lies."""
    return assets.path("selfcheck") / "model"


def serve_command() -> tuple[str, ...]:
    """The line that serves the model as the checks want it."""
    return ("vllm", "serve", str(model_folder()), "--dtype", "float32", "--max-model-len", str(MAX_MODEL_LEN))


def settings_of(backend: str, *, base_url: Sequence[str] = (), model_args: str = "") -> RunSettings:
    """The settings of a run of the shipped model."""
    content = {
        "model_name": str(model_folder()), "backend": backend, "base_url": tuple(base_url),
        "serve": find_backend(backend).can_serve and not base_url, "dtype": "float32", "max_model_len": MAX_MODEL_LEN,
        "gpu_memory_utilization": 0.3, "model_args": model_args, "tasks": (), "include_path": "",
    }  # fmt: skip
    return RunSettings.model_validate(content)


def selfcheck(client: Client) -> Diagnosis:
    """Ask a backend at work all that is known and that it says it can answer, twice, and compare.

    Raises:
        BackendError: The engine is gone.
    """
    import time

    from tokenizers import Tokenizer

    known = [one for one in read_known() if one.request.kind in client.backend.kinds]
    encoder = Encoder(Tokenizer.from_file(str(model_folder() / "tokenizer.json")))
    asks = list(with_token_ids([one.request for one in known], encoder))
    started = time.monotonic()
    rounds = [
        {said.request.id: said for said in client.answer(some)}
        for some in (asks, asks[::-1])  # in another order, so that what shares a batch is another
    ]
    return Diagnosis(client.engine, time.monotonic() - started, judge(known, *rounds))


def read_known() -> list[Known]:
    """What is asked, from the shipped file, and one prompt that no context holds."""
    content = json.loads(assets.read("selfcheck/known.json"))
    found = [_known(fields) for fields in content["asks"]]
    long = next(one for one in found if one.group == "long" and one.texts)
    too_long = replace(long.request, id="selfcheck/too_long/0", prompt=long.request.prompt * 2)
    return [*found, Known("too_long", too_long, long.tokens * 2)]


def _known(fields: Mapping[str, Any]) -> Known:
    group, number = fields["group"], fields["number"]
    kind: Kind = "choices" if "continuations" in fields else "generate"
    request = Request(
        id=f"selfcheck/{group}/{number}", task="selfcheck", doc=number, repeat=0, kind=kind, prompt=fields["prompt"],
        stop=tuple(fields.get("stop", ())), max_tokens=fields.get("max_tokens", 0),
        settings={"do_sample": False, "temperature": 0.0} if kind == "generate" else None,
        continuations=tuple(fields.get("continuations", ())), needs_greedy=True,
    )  # fmt: skip
    if kind == "generate":
        return Known(group, request, fields["prompt_tokens"], texts=[(text, end) for text, end, _ in fields["said"]])
    choices = [[(value, greedy) for value, greedy in one] for one in fields["said"]]
    return Known(group, request, fields["prompt_tokens"], choices=choices)
