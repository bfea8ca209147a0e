"""The client of the backend ``recorded``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from meta_eval.plugins.stand_in.backend import ENGINE
from meta_eval.plugins.stand_in.record import StandInRecord
from meta_eval.sockets import Answer, Client, Request


class RecordedClient(Client):
    """Reads each answer from the pack."""

    @property
    def engine(self) -> str:
        return ENGINE

    def answer(self, requests: Iterable[Request]) -> Iterator[Answer]:
        record = StandInRecord(Path(self.settings.include_path), float(self.settings.model_args.get("spoil", 0)))
        yield from map(record.answer, requests)
