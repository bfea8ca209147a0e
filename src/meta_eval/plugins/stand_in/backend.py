"""The backend ``recorded``: the record answers, and no model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval.pack.backends.base import load_class
from meta_eval.sockets import Backend, Settings

# What results name as their engine.
ENGINE = "the record"


class RecordedBackend(Backend):
    """Gives the recorded answers of the pack. ``model_args: {spoil: 0.1}`` spoils the answers to a tenth of the docs.

    It shows what a run and its report look like, and tests everything behind the model. It says nothing about a model.
    """

    name = "recorded"
    kinds = frozenset(("generate", "choices"))
    reads_text = True  # no tokens are needed
    tokenizer = None
    args_in_command = False  # there is none
    instead = "the recorded answers in the model's place, for a trial"
    no_command = "no model is asked; the recorded answers are graded"

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.stand_in.recorded_client:RecordedClient")

    def check_args(self, args: Mapping[str, object]) -> None:
        for name in args:
            if name != "spoil":
                raise ValueError(f"{name!r} is not allowed here: backend recorded takes spoil alone")
        share = args.get("spoil", 0)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(f"spoil is {share!r:.40}, and not a share from 0 to 1")

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (whatever they say)
        return ("backend recorded asks no model: the answers are those of the record",)

    def gpus(self, settings: Settings) -> int:  # noqa: ARG002 (likewise)
        return 0
