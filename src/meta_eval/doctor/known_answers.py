"""The shipped model with known answers: its folder, its server, its answers.

``assets/known_answers`` contains a Llama with a million parameters that knows 25 answers by heart. A file holds its
answers to 40 prompts with 0, 1 and 2 BOS. They were computed from Llama's definition without any engine
(``tools/known_answers.py``). So each check has exactly one right answer, up to rounding.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_eval.ask.request import Request
from meta_eval.base import assets
from meta_eval.base.errors import ConfigError
from meta_eval.doctor.engine_options import EngineOptions
from meta_eval.harness.config_keys import OF_SERVER, refuse_secret
from meta_eval.harness.families import list_families
from meta_eval.harness.settings import RunSettings, find_default_backend, list_default_backends
from meta_eval.pack.backends.base import BackendError, UnknownBackendError
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.backends.server import find_program

MAX_MODEL_LEN = 4096
END = list_families()[0].end_of_turn


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A prompt with the model's answer."""

    group: str
    """What the prompt tests."""

    request: Request
    """The request."""

    tokens: int
    """Length of the prompt without BOS."""

    texts: Sequence[tuple[str, str]] = ()
    """For ``generate``, by number of BOS: the text and its finish reason."""

    choices: Sequence[Sequence[tuple[float, bool]]] = ()
    """For ``choices``, by number of BOS: each log-likelihood in nats, and whether it is greedy."""


def find_model_folder() -> Path:
    """The folder of the model."""
    return assets.asset_path("known_answers") / "model"


def serve_command() -> tuple[str, ...]:
    """The command that serves the model for the checks.

    Raises:
        BackendError: No engine here brings one.
    """
    program = find_program()
    if program is None:
        raise BackendError(
            "no engine is here whose server the checks know", where="--show-command",
            hint=f"Serve {find_model_folder()} with an engine of yours",
        )  # fmt: skip
    return program.short_command(str(find_model_folder()), dtype="float32", max_model_len=MAX_MODEL_LEN)


def make_settings(options: EngineOptions) -> RunSettings:
    """The settings of a run of the shipped model.

    Raises:
        UnknownBackendError: There is no such backend, or none is named and no engine is the default.
        ConfigError: An address holds a credential.
    """
    backend = options.backend or ("server" if options.base_url else find_default_backend())
    if backend is None:
        several = " and ".join(list_default_backends())
        raise UnknownBackendError(
            f"no backend is named, and {f'{several} are each' if several else 'no engine here is'} the default"
        )
    for url in options.base_url:
        try:
            refuse_secret(url, OF_SERVER)
        except ValueError as error:
            raise ConfigError(str(error), where="--base-url") from None
    content = {
        "model_name": str(find_model_folder()), "backend": backend, "base_url": tuple(options.base_url),
        "serve": find_backend(backend).can_serve and not options.base_url, "dtype": "float32",
        "max_model_len": MAX_MODEL_LEN, "gpu_memory_utilization": 0.3, "model_args": options.model_args, "tasks": (),
        "include_path": "",
    }  # fmt: skip
    return RunSettings.model_validate(content)


def read_known_answers() -> list[KnownAnswer]:
    """Read the known answers. The last prompt is too long for any context."""
    content = json.loads(assets.read_asset("known_answers/known.json"))
    answers = [_known_answer(fields) for fields in content["asks"]]
    long = next(answer for answer in answers if answer.group == "long" and answer.texts)
    too_long = replace(long.request, id="doctor/too_long/0", prompt=long.request.prompt * 2)
    return [*answers, KnownAnswer("too_long", too_long, long.tokens * 2)]


def _known_answer(fields: Mapping[str, Any]) -> KnownAnswer:
    group, number = fields["group"], fields["number"]
    kind = "choices" if "continuations" in fields else "generate"
    request = Request(
        id=f"doctor/{group}/{number}", task="doctor", doc=number, repeat=0, kind=kind, prompt=fields["prompt"],
        stop=tuple(fields.get("stop", ())), max_tokens=fields.get("max_tokens", 0),
        settings={"do_sample": False, "temperature": 0.0} if kind == "generate" else None,
        continuations=tuple(fields.get("continuations", ())), needs_greedy=True,
    )  # fmt: skip
    if kind == "generate":
        texts = [(text, end) for text, end, _ in fields["said"]]
        return KnownAnswer(group, request, fields["prompt_tokens"], texts=texts)
    choices = [[(value, greedy) for value, greedy in of_bos] for of_bos in fields["said"]]
    return KnownAnswer(group, request, fields["prompt_tokens"], choices=choices)
