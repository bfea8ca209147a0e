"""``meta-eval stand-in``: serve the recorded answers of a pack, as a server of a model would."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from meta_eval.cli import options
from meta_eval.sockets import err


def stand_in(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    *,
    spoil: float = typer.Option(
        0.0, "--spoil", metavar="SHARE", min=0.0, max=1.0, help="Spoil the answers to this share of docs, 0 to 1."
    ),
    port: int = typer.Option(
        8000, "--port", metavar="PORT", min=0, max=65535, help="The port on this machine. 0 takes any that is free."
    ),
) -> None:
    """Serve a pack's recorded answers at http://localhost:PORT/v1, in a model's place. Ctrl-C ends it.

    It answers text prompts of /v1/completions, so that a run and its report can be tried without a model. Multiple
    choice needs likelihoods, which it does not serve: set `backend: recorded` for these tasks.

    Example: meta-eval stand-in work_dir --spoil 0.1
    """
    from meta_eval.plugins.stand_in.stand_in_server import StandIn, read_texts

    folder = options.pack_folder(pack, config)
    model, texts = read_texts(folder, spoil)
    with StandIn(model, texts, port) as server:
        count = sum(map(len, texts.values()))
        err.print(f"serving {count:,} recorded answers of {model} at {server.url}; Ctrl-C ends it", soft_wrap=True)
        words = ["meta-eval", "run", str(folder), "--set", "backend=server", "--set", f"base_url={server.url}"]
        err.print(f"next: {shlex.join(words)}", soft_wrap=True)
        server.serve()
