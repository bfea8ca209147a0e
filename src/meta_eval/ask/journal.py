"""Keeps the answers of a run in an append-only file, so that the same command resumes.

The file is ``OUTPUT/answers/MODEL.KEY.jsonl``, or ``MODEL.KEY.I-of-N.jsonl`` for a shard. KEY is a hash of everything
except the request that an answer depends on (`collect_identity`). A run with other settings never reads the file. Each
line also has the hash of its request: after a change of prompt, stop text or limit, the old answer no longer counts.

Each answer has a hash of the address that gave it. Addresses that a configuration lists together are replicas of one
deployment; ``--same-deployment`` says the same of earlier addresses. Answers of any other address are not resumed: they
would be graded as those of this one.

A random order, which whoever answers must not know, has a secret seed. It lies beside the answers,
``OUTPUT/answers/MODEL.KEY.order.json``, readable by its owner alone, so that the same command goes on in the same
order. Its SHA-256 is written into the file of answers before the first request, and the seed into the results: so
everybody can check that the order was drawn before anything was known, and drawn once.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meta_eval.ask.answer_files import ANSWERS, VERSION, Answers, read_answers
from meta_eval.ask.grading import SAME, join_endpoints
from meta_eval.base.display import plural, quoted
from meta_eval.base.errors import FULL_DISK, ConfigError, PackError
from meta_eval.base.hashing import OWN_SERVER, hash_json, hash_text
from meta_eval.base.inputs import open_regular, parse_json, read_regular
from meta_eval.base.logs import log, report_progress
from meta_eval.base.outputs import make_folder, replace_file
from meta_eval.base.secrets import redact_secrets
from meta_eval.harness.answer import Answer, AnswersError, format_answer
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.registry import backend_of

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
            make_folder(self._folder)
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
                hint="Wait for it, or end it. `meta-eval run` can share a pack with --shard",
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
        return sorted(self._folder.glob(f"{glob.escape(self._stem)}*.jsonl"))

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
        line = replace(answer, engine=engine, model=self._model, endpoint=endpoint, random_place=place)
        self._append(format_answer(line))

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
        what, where = f"cannot be written ({error.strerror})", self.path
        hint: str | None = "Make it and its folder writable files of yours"
        if error.errno == errno.ELOOP:
            what = "is a link, and answers are not written through links"
            hint = "Move it away, or link its folder instead"
        elif error.errno in FULL_DISK:
            hint = "Free some space, then rerun the same command: earlier answers are saved"
        elif isinstance(error, (FileExistsError, NotADirectoryError)):
            where, hint = error.filename, None
        return PackError(what, where=str(where), hint=hint)


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


def read_earlier_answers(
    journal: Journal,
    settings: RunSettings,
    *,
    asks: bool,
    same: bool,
    folder_option: str = "--set output_path=FOLDER",
) -> Answers:
    """Read the answers so far, and refuse to add others to them that are of another deployment. Say which requests have
    several different answers.

    Args:
        journal: Of the run, open.
        settings: They name the addresses.
        asks: Whether the run may ask.
        same: Whether the user says that all addresses of this journal are one deployment.
        folder_option: The option that names another folder.

    Raises:
        AnswersError: They cannot be read, or a file is named as that of other settings.
        ConfigError: Some are of another deployment.
    """
    report_progress("looking for what is not answered yet")
    answers = journal.read()
    for settings_sha256, where in answers.settings.items():
        if settings_sha256 not in (journal.key, "None"):
            raise AnswersError(
                "names other settings than the name of its file", where=where, hint="Rename it back, or move it away"
            )
    if answers.replaced:
        (name, _), (first, last) = next(iter(answers.replaced.items()))
        log.warning(
            f"{plural(len(answers.replaced), 'request')} with answers that are not alike, and the last counts: "
            f"{name} in {first} and {last}"
        )
    endpoints = backend_of(settings).list_endpoints(settings)
    if asks and endpoints:
        _check_deployment(journal, answers, endpoints, settings, same=same, folder_option=folder_option)
    return answers


def _check_deployment(
    journal: Journal,
    answers: Answers,
    endpoints: Sequence[str],
    settings: RunSettings,
    *,
    same: bool,
    folder_option: str,
) -> None:
    journal.endpoint = endpoints[0]
    given = Counter(answer.endpoint for answer in answers.by_key.values())
    if unknown := given.pop(None, 0):
        log.warning(f"{plural(unknown, 'earlier answer')} do not say which address gave them: they count as this one's")
    joined = join_endpoints([*answers.deployments, frozenset(endpoints)])
    own = next(deployment for deployment in joined if endpoints[0] in deployment)
    foreign = {endpoint: count for endpoint, count in given.items() if endpoint not in own}
    if foreign and not same:
        where = "base_url" if settings.base_url else "serve"
        urls = redact_secrets(", ".join(settings.base_url))
        this = "a server of this run's own" if endpoints[0] == OWN_SERVER else urls
        raise ConfigError(
            f"{plural(sum(foreign.values()), 'answer')} in {journal.path.parent} came from another address than {this}",
            where=where,
            hint=f"Ask this one in a folder of its own: {folder_option}. If the deployment only moved, add "
            "--same-deployment",
        )
    # Shards that run at the same time do not see each other's answers; what they all say joins them.
    together = frozenset({*endpoints, *foreign, *([SAME] if same else ())})
    if len(together) > 1 and not any(together <= deployment for deployment in answers.deployments):
        journal.note(deployment=sorted(together))


# Bytes of a seed that nobody guesses.
_SEED_BYTES = 32

_RESTART = "Move the answers and this file away to start again"


@dataclass(frozen=True, slots=True)
class RunOrder:
    """The order of one run."""

    seed: str
    """What the order is drawn with."""

    seed_sha256: str
    """Its hash, in hex."""

    secret: bool
    """Whether the seed was drawn; else the user named it."""

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
    stored = _read_seed(path)
    if stored is None and recorded:
        raise PackError("the seed of this run's order is not there any more", where=str(path), hint=_RESTART)
    if stored is not None and given_seed not in (None, stored.seed):
        raise ConfigError(
            "this run began in the order of another seed", where="--order-seed", hint="Leave it out to go on"
        )
    order = stored or _draw_seed(given_seed)
    if set(recorded) - {order.seed_sha256}:
        where = next(file for sha256, file in recorded.items() if sha256 != order.seed_sha256)
        raise PackError(f"records the hash of another seed than {path} holds", where=where, hint=_RESTART)
    if stored is None:
        _keep_seed(path, order)
    if not recorded:
        journal.note(seed_sha256=order.seed_sha256)
    secret = "a secret seed" if order.secret else "the seed that you named"
    log.info(f"docs are asked in a random order, by {secret} with SHA-256 {order.seed_sha256}")
    return order


def _draw_seed(given_seed: str | None) -> RunOrder:
    seed = secrets.token_hex(_SEED_BYTES) if given_seed is None else given_seed
    return RunOrder(seed, hash_text(seed), secret=given_seed is None)


def _read_seed(path: Path) -> RunOrder | None:
    if not path.exists():
        return None
    try:
        content = parse_json(read_regular(path))
        seed, secret = content["seed"], content["secret"]
        if not isinstance(seed, str) or not isinstance(secret, bool):
            raise TypeError
    except (ValueError, KeyError, TypeError, OSError):
        raise PackError("is no seed of an order", where=str(path), hint=_RESTART) from None
    return RunOrder(seed, hash_text(seed), secret)


def _keep_seed(path: Path, order: RunOrder) -> None:
    with replace_file(path, private=True) as file:
        file.write(json.dumps({"seed": order.seed, "secret": order.secret}))
