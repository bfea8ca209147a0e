"""The random order of a run, which whoever answers must not know: a secret seed, and its hash before anything is asked.

The seed lies beside the answers, ``OUTPUT/answers/MODEL.KEY.order.json``, readable by its owner alone, so that the same
command goes on in the same order. Its SHA-256 is written into the file of answers before the first request, and the
seed into the results: so everybody can check that the order was drawn before anything was known, and drawn once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from meta_eval.ask.journal import Journal
from meta_eval.base.errors import ConfigError, PackError
from meta_eval.base.hashing import hash_text
from meta_eval.base.inputs import parse_json, read_regular
from meta_eval.base.logs import log
from meta_eval.base.outputs import replace_file

# Bytes of a seed that nobody guesses.
_BYTES = 32

_HINT = "Move the answers and this file away to start again"


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The order of one run.

    Attributes:
        seed: What the order is drawn with.
        seed_sha256: Its hash, in hex.
        secret: Whether the seed was drawn; else the user named it.
    """

    seed: str
    seed_sha256: str
    secret: bool

    def sort(self, names: Iterable[tuple[str, int]], what: str) -> list[tuple[str, int]]:
        """Put docs, each a task and a number, into an order of their own for this purpose."""
        return sorted(names, key=lambda doc: hash_text(f"{self.seed} {what} {json.dumps(doc)}"))

    def to_json(self) -> dict[str, Any]:
        """What the results file says of it."""
        return asdict(self)


def open_order(journal: Journal, recorded: Mapping[str, str], given_seed: str | None) -> RunOrder:
    """The order of a run: the one that it began with, else a new one, recorded before anything is asked.

    Args:
        journal: Of the run, open.
        recorded: By the hash of a seed the file of answers that records it.
        given_seed: A seed that the user names; None to draw one.

    Raises:
        ConfigError: The run began with another seed.
        PackError: The seed is gone or was changed.
        OutputError: It cannot be kept.
    """
    path = journal.path.parent / f"{journal.stem}.order.json"
    stored = _read(path)
    if stored is None and recorded:
        raise PackError("the seed of this run's order is not there any more", where=str(path), hint=_HINT)
    if stored is not None and given_seed not in (None, stored.seed):
        raise ConfigError(
            "this run began in the order of another seed", where="--order-seed", hint="Leave it out to go on"
        )
    order = stored or _make(given_seed)
    if set(recorded) - {order.seed_sha256}:
        where = next(file for sha256, file in recorded.items() if sha256 != order.seed_sha256)
        raise PackError(f"records the hash of another seed than {path} holds", where=where, hint=_HINT)
    if stored is None:
        _keep(path, order)
    if not recorded:
        journal.note(seed_sha256=order.seed_sha256)
    secret = "a secret seed" if order.secret else "the seed that you named"
    log.info(f"docs are asked in a random order, by {secret} with SHA-256 {order.seed_sha256}")
    return order


def _make(given_seed: str | None) -> RunOrder:
    seed = secrets.token_hex(_BYTES) if given_seed is None else given_seed
    return RunOrder(seed, hash_text(seed), secret=given_seed is None)


def _read(path: Path) -> RunOrder | None:
    if not path.exists():
        return None
    try:
        content = parse_json(read_regular(path))
        seed, secret = content["seed"], content["secret"]
        if not isinstance(seed, str) or not isinstance(secret, bool):
            raise TypeError
    except (ValueError, KeyError, TypeError, OSError):
        raise PackError("is no seed of an order", where=str(path), hint=_HINT) from None
    return RunOrder(seed, hash_text(seed), secret)


def _keep(path: Path, order: RunOrder) -> None:
    with replace_file(path, private=True) as file:
        file.write(json.dumps({"seed": order.seed, "secret": order.secret}))
