"""Options of `doctor` for an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.base.verb_options import Options, option


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions(Options):
    """The engine that `doctor` checks."""

    backend: str | None = option(
        None, str | None, "--backend NAME",
        "The engine to check, as in the key `backend`. Default: the pack's; without a pack the default, or server "
        "with --base-url.",
        settings={"show_default": False},
    )  # fmt: skip
    """As the key backend of the configuration. None means ``server`` with a base_url, else the default."""

    base_url: Sequence[str] = option(
        (), list[str], "--base-url URL", "Address of a server that serves the shipped model. See --show-command."
    )
    """Addresses of servers that serve the shipped model."""

    model: str | None = option(
        None, str | None, "--model NAME", "The server's name for the model. Default: the model's folder."
    )
    """The servers' name for the model. None means its folder."""

    model_args: str = option("", str, "--model-args A=B,…", "More arguments for the engine.")
    """More arguments for the engine, ``a=b,c=d``."""
