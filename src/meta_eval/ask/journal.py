"""Keeps the answers of a run in an append-only file, so that the same command resumes.

The file is ``OUTPUT/answers/MODEL.KEY.jsonl``, or ``MODEL.KEY.I-of-N.jsonl`` for a shard. KEY is a hash of everything
except the request that an answer depends on (`collect_identity`). A run with other settings never reads the file. Each
line also has the hash of its request: after a change of prompt, stop text or limit, the old answer no longer counts.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.answers.answer_files import Answers, read_answers
from meta_eval.ask.answers.requests_form import ANSWERS, VERSION, format_answer
from meta_eval.base.errors import ConfigError, PackError
from meta_eval.base.escaping import quoted
from meta_eval.base.hashing import hash_json
from meta_eval.base.inputs import open_regular
from meta_eval.harness.answer import Answer

# Size from which weight files are only sampled, number of samples, and bytes per sample.
_WHOLE = 16 * 2**20
_BLOCKS, _BLOCK = 256, 4096

# Never through a link into a foreign file; and without blocking on a named pipe.
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_MOST_SHARDS = 1_000_000


class Journal:
    """The file of a run or shard. Inside the ``with`` block it is open and locked.

    Args:
        folder: ``OUTPUT/answers``.
        model: As the user names it.
        identity: What `collect_identity` gave.
        shard: ``(I, N)``, of a run that is split over machines; ``(0, 1)`` of a whole one.
        second: Whether it holds second answers to docs.

    Attributes:
        places: By task and doc its place in a random order, while docs are asked in one.
        endpoint: What gives the answers that do not say it themselves; see `Backend.list_endpoints`.

    Raises:
        PackError: It cannot be written, or another process is writing it.
    """

    def __init__(
        self,
        folder: Path,
        model: str,
        identity: Mapping[str, Any],
        shard: tuple[int, int] = (0, 1),
        *,
        second: bool = False,
    ) -> None:
        self.places: Mapping[tuple[str, int | str], int] = {}
        self.endpoint: str | None = None
        self._second = second
        self._folder, self._model, self._identity = folder, model, dict(identity)
        self.key = hash_json(self._identity)
        self._stem = f"{_file_name(model)}.{self.key[:12]}"
        part = f".{shard[0]}-of-{shard[1]}" if shard[1] > 1 else ""
        self.path = folder / f"{self._stem}{part}.jsonl"

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, _APPEND, 0o666)
        except OSError as error:
            raise self._unwritable(error) from None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            os.close(self._file)
            raise PackError("is not a regular file", where=str(self.path), hint="Move it away")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise PackError(
                "another run is writing this answers file",
                where=str(self.path),
                hint="Wait for it, or give each run a part with --shard",
            ) from None
        try:
            size = os.fstat(self._file).st_size
            if size == 0:
                header = {"format": ANSWERS, "version": VERSION, "model": self._model, "settings_sha256": self.key}
                self._append({**header, **({"rerun": True} if self._second else {}), "settings": self._identity})
            elif os.pread(self._file, 1, size - 1) != b"\n":
                self._write(b"\n")  # ends a line that a crash cut off; its request is sent again
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.fsync(self._file)
        except OSError:
            pass  # keep what can be kept; a full disk was already reported
        finally:
            os.close(self._file)

    @property
    def stem(self) -> str:
        """``MODEL.KEY``, the common name of this run's files."""
        return self._stem

    def files(self) -> list[Path]:
        """All existing files of this run, including those of shards, sorted."""
        return sorted(self._folder.glob(f"{_literal(self._stem)}*.jsonl"))

    def read(self) -> Answers:
        """Read all answers so far, of any process."""
        return read_answers(self.files(), prefer="last")

    def note(self, **facts: Any) -> None:
        """Append a line that says something of the run.

        Raises:
            PackError: It cannot be written.
        """
        self._append({"format": ANSWERS, "version": VERSION, "settings_sha256": self.key, **facts})

    def add(self, answer: Answer, *, engine: str) -> None:
        """Append an answer as a line, in a single write.

        Raises:
            PackError: It cannot be written.
        """
        place = self.places.get((answer.task, answer.doc))
        endpoint = answer.endpoint or self.endpoint
        self._append(format_answer(replace(answer, engine=engine, model=self._model, endpoint=endpoint, place=place)))

    def _append(self, content: Mapping[str, Any]) -> None:
        self._write(json.dumps(content).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> PackError:
        link = error.errno == errno.ELOOP
        return PackError(
            "is a link, and answers are not written through links" if link else f"cannot be written ({error.strerror})",
            where=str(self.path),
            hint="Move it away, or link its folder instead"
            if link
            else "Free some space, then rerun the same command: earlier answers are saved",
        )


def check_shard(shard: object) -> None:
    """Refuse a shard that is not part of a run.

    Raises:
        ConfigError: It is not ``(I, N)`` with I from 0 to N - 1.
    """
    numbers = shard if isinstance(shard, (tuple, list)) else ()
    is_valid = len(numbers) == 2 and all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    if not is_valid or not 0 <= numbers[0] < numbers[1] <= _MOST_SHARDS:
        raise ConfigError(
            f"{quoted(shard)} is not a shard", where="shard", hint="Use (0, 8) to (7, 8) for eight shards"
        )


def compute_model_fingerprint(model: str) -> str:
    """Identify a model's content: a hash of a folder or file, or the commit of a model on the hub.

    Of files from 16 MiB on, size and 256 evenly spread samples of 4 KiB are hashed: training changes weights
    everywhere, and hashing a terabyte would take longer than the run. ``""`` if unknown, as for a model that only a
    server has.
    """
    folder = Path(model)
    if folder.is_dir() or folder.is_file():
        digest = hashlib.sha256()
        for path in sorted(_files(folder)) if folder.is_dir() else [folder]:
            digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
            for block in _samples(path):
                digest.update(block)
        return f"sha256:{digest.hexdigest()}"
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return ""
    return f"commit:{Path(cached).parent.name}" if isinstance(cached, str) else ""


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _samples(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    with open_regular(path) as file:
        if size < _WHOLE:
            yield file.read()
            return
        for number in range(_BLOCKS):
            file.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            yield file.read(_BLOCK)


def _file_name(model: str) -> str:
    """The last two parts of a model's name, for file names."""
    name = "__".join(part for part in model.split("/")[-2:] if part not in ("", ".", ".."))
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:100].lstrip(".") or "model"


def _literal(stem: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", stem)
