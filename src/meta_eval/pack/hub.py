"""Reads datasets on the Hugging Face hub, or a mirror, through the hub's own library.

The library finds the token, keeps the cache, resumes downloads and shows progress on stderr. ``HF_TOKEN``, ``HF_HOME``,
``HF_ENDPOINT`` and ``HF_HUB_OFFLINE`` are its variables. This module decides the commit, retries where that helps,
checks downloads, and turns every failure into a message.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from meta_eval.base.errors import SourceError, UnreachableError
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import is_path, open_data, read_regular, suggest_path
from meta_eval.base.logs import without_secrets
from meta_eval.base.pack_names import is_inside, is_name
from meta_eval.base.secrets import redact_secrets

if TYPE_CHECKING:
    from huggingface_hub import HfApi


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file on this machine."""

    path: Path
    """Its path, or the path of its source; parquet (even if named ``.parquet.gzip``) or JSON lines."""

    name: str
    """Its path inside the dataset, with ``/``: the same on every machine."""

    sha256: str
    """Hex digest of its content."""

    content: bytes | None = None
    """Its content, if it exists only in memory."""

    def open(self) -> BinaryIO:
        """Open it for reading bytes.

        Raises:
            OSError: It cannot be opened.
        """
        return open_data(self.path) if self.content is None else BytesIO(self.content)


@dataclass(frozen=True)
class Repository:
    """All files of a hub dataset at a commit."""

    dataset_id: str
    """The hub id."""

    revision: str
    """The commit."""

    names: tuple[str, ...] = field(repr=False)
    """All its files; without a network, the files in the cache."""

    fetch_file: Callable[[str], DataFile] = field(repr=False)
    """Fetches a file to this machine, by name."""

    warnings: tuple[str, ...] = ()
    """Warnings for the user, each a sentence."""


@dataclass(frozen=True, slots=True)
class HubPlace:
    """The dataset and file of a request, for messages."""

    endpoint: str
    dataset_id: str
    revision: str | None
    file: str | None = None
    kind: str = "dataset"

    @property
    def where(self) -> str:
        version = f" at {self.revision}" if self.revision else ""
        return f"{self.dataset_id}{version}" + (f", {self.file}" if self.file else "")

    @property
    def page(self) -> str:
        return f"{self.endpoint}/{'datasets/' if self.kind == 'dataset' else ''}{self.dataset_id}"


@dataclass(frozen=True, slots=True)
class HubFault:
    """A failure. ``passes``: another attempt may succeed. ``wait``: seconds to wait, as requested by the hub."""

    error: SourceError
    passes: bool = False
    wait: float | None = None


# Message and hint by the hub's X-Error-Code (and status), else by status; {page} is the dataset's page.
_LOG_IN = "Log in with `hf auth login` or set HF_TOKEN"
_ANSWERS = {
    "GatedRepo 401": (
        "the dataset is gated, and nobody is logged in",
        f"{_LOG_IN}, and accept the licence on {{page}}",
    ),
    "GatedRepo": (
        "the dataset is gated, and this account has not been granted access",
        "Accept the licence on {page} and wait for the grant; a fine-grained token also needs the permission to read "
        "gated repositories",
    ),
    "RepoNotFound": (
        "there is no such dataset, or it is private",
        f"Check the spelling; if it is private: {_LOG_IN}",
    ),
    "RevisionNotFound": ("there is no such revision", "See {page}/tree/main for branches, tags and commits"),
    "EntryNotFound": ("there is no such file", "See {page}/tree/main for what there is, or choose another revision"),
    "401 with a token": ("the hub does not accept the token", f"{_LOG_IN} to one that is valid"),
    "401": (
        "the hub answers only those who are logged in",
        f"{_LOG_IN}; check the spelling too, for a dataset that does not exist is answered in the same way",
    ),
    "429": (
        "the hub limits the rate of requests",
        "Try again in a few minutes; the limit is higher for those who are logged in",
    ),
    "5xx": ("the hub has a fault of its own", "Try again later"),
    "other": ("the hub refuses", "Check what the token may read, and {page}"),
}


def diagnose_fault(exc: BaseException, place: HubPlace) -> HubFault:
    """Turn a failure of the library into a message, and decide whether to try again."""
    from huggingface_hub import errors

    while isinstance(exc, errors.LocalEntryNotFoundError) and exc.__cause__ is not None:
        exc = exc.__cause__  # "not in the cache either" hides what went wrong
    reason = f"{type(exc).__name__}: {' '.join(redact_secrets(str(exc)).split())[:200]}"
    error: SourceError
    passes = False
    if isinstance(exc, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        error = make_not_cached_error(place)
    elif isinstance(exc, errors.HFValidationError):
        error = _describe_wrong_id(place)
    elif isinstance(exc, errors.HfHubHTTPError):
        return _diagnose_answer(exc.response, place)
    elif isinstance(exc, errors.FileMetadataError):
        error = make_no_hub_error(place)
    elif isinstance(exc, OSError) and exc.errno is not None and not isinstance(exc, ConnectionError | TimeoutError):
        name = f"{exc.filename}: " if exc.filename else ""
        error = SourceError(
            f"cannot be stored: {name}{exc.strerror}",
            where=place.where,
            hint="Free some space or fix the permissions, or set HF_HOME to another folder",
        )
    elif place.file is not None:
        passes = True
        error = SourceError(
            f"the download failed ({reason})", where=place.where, hint="Check the network and start again"
        )
    else:
        passes = True
        error = UnreachableError(
            f"{place.endpoint} cannot be reached, and the cache does not hold it ({reason})",
            where=place.where,
            hint="Check the network, the proxy and HF_ENDPOINT",
        )
    return HubFault(error, passes)


def _describe_wrong_id(place: HubPlace) -> SourceError:
    """Why a name is no id: it is the path of a folder that is missing, or has another form."""
    path = Path(place.dataset_id).expanduser()
    if is_path(place.dataset_id) and not path.exists():
        return SourceError(
            f"there is no such folder on this machine{suggest_path(path)}",
            where=place.dataset_id,
            hint="Name a folder that is there, or an id of the hub: owner/name",
        )
    return SourceError("this is not the id of a dataset", where=place.dataset_id, hint="Ids look like owner/name")


def _diagnose_answer(response: Any, place: HubPlace) -> HubFault:
    """Turn an answer with an error status into a message."""
    status: int = response.status_code
    code = response.headers.get("X-Error-Code")
    if code is None and status == 404:
        code = "EntryNotFound" if place.file else "RepoNotFound"
    passes = status in (408, 429) or status >= 500
    key = next(key for key in (f"{code} {status}", code, str(status), "5xx" if passes else "other") if key in _ANSWERS)
    if key == "401" and "authorization" in response.request.headers:
        key = "401 with a token"
    what, hint = _ANSWERS[key]
    if key in ("5xx", "other"):
        message = response.headers.get("X-Error-Message")
        what += f" (status {status}: {message})" if message else f" (status {status})"
    error = SourceError(what, where=place.where, hint=hint.format(page=place.page))
    return HubFault(error, passes, _wanted_wait(response.headers) if passes else None)


def _wanted_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds in ``Retry-After`` (a number or a date, RFC 9110 10.2.3), else in the hub's ``RateLimit`` (``t=``)."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # not a date, or without a time zone
        reset = re.search(r"\bt=(\d+)", headers.get("RateLimit", ""))
        return float(reset[1]) if reset else None


def make_not_cached_error(place: HubPlace) -> UnreachableError:
    error = UnreachableError(
        "it is not in the cache, and nothing can be downloaded offline",
        where=place.where,
        hint="Prepare once with a network (and without HF_HUB_OFFLINE), or copy HF_HOME from a machine that has it",
    )
    error.by_choice = True
    return error


def make_no_file_error(place: HubPlace) -> SourceError:
    what, hint = _ANSWERS["EntryNotFound"]
    return SourceError(what, where=place.where, hint=hint.format(page=place.page))


def make_no_hub_error(place: HubPlace) -> SourceError:
    return SourceError(
        f"{place.endpoint} does not respond like a hub",
        where=place.where,
        hint="Check HF_ENDPOINT, and look for a proxy or login page in between",
    )


_T = TypeVar("_T")
# Seconds for an answer about a model; its name may exist only on a server.
_PATIENCE = 10.0

_COMMIT = re.compile(r"[0-9a-f]{40}")

# The card of a dataset.
_CARD = "README.md"


@dataclass(frozen=True)
class HubClient:
    """Settings of access to the hub: address, cache, retries and timeouts."""

    endpoint: str | None = None
    """Address of the hub; None for ``HF_ENDPOINT`` or the public hub."""

    cache_dir: Path | None = None
    """The cache; None for the library's own."""

    attempts: int = 4
    """Total attempts of a request."""

    timeout: float = 30.0
    """Seconds to wait for an answer about a dataset."""

    first_delay: float = 1.0
    """Seconds before the second attempt; each later delay is twice as long, plus or minus a quarter."""

    longest_wait: float = 300.0
    """Longest accepted ``Retry-After``, in seconds; a longer one is a failure."""

    sleep: Callable[[float], None] = time.sleep
    """Waits some seconds."""

    jitter: Callable[[], float] = random.random
    """Gives a random number in [0, 1), so that many clients do not retry in step."""

    def api(self) -> HfApi:
        """The library's client.

        Raises:
            SourceError: The address of the hub is not one.
        """
        from huggingface_hub import HfApi

        for handler in logging.getLogger("huggingface_hub").handlers:
            handler.addFilter(without_secrets)  # the library logs addresses unfiltered
        api = HfApi(endpoint=self.endpoint, library_name="meta-eval")
        try:
            address = urlsplit(api.endpoint)
            valid = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
        except ValueError:
            valid = False
        if not valid:
            raise SourceError(f"{api.endpoint!r} is not a hub address", hint="Correct HF_ENDPOINT, or unset it")
        return api

    def ask(self, action: Callable[[], _T], place: HubPlace) -> _T:
        """Run ``action``, and retry after temporary failures.

        Raises:
            SourceError: It failed for good.
        """
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

        # The library's HTTP client differs by version (requests, httpx, httpx2) and is not a dependency of ours. Its
        # base error is a base of HfHubHTTPError. RuntimeError and ValueError come from hf_xet.
        bases = HfHubHTTPError.__bases__
        failures: tuple[type[BaseException], ...] = (OSError, EntryNotFoundError, RuntimeError, ValueError, *bases)
        delay = self.first_delay
        for left in reversed(range(self.attempts)):
            try:
                return action()
            except failures as exc:
                fault = diagnose_fault(exc, place)
                if not left or not fault.passes or (fault.wait or 0) > self.longest_wait:
                    raise fault.error from exc
                self.sleep(max(fault.wait or 0.0, delay * (0.75 + self.jitter() / 2)))
                delay *= 2
        raise AssertionError("attempts must be at least 1")


def open_repository(dataset_id: str, *, revision: str | None, client: HubClient | None = None) -> Repository:
    """Open the files of a dataset at the current commit of ``revision`` (None: the default branch).

    Raises:
        SourceError: It is missing, gated or unreachable.
    """
    snapshot = _open(client or HubClient(), dataset_id, revision)
    return Repository(dataset_id, snapshot.commit, snapshot.names, snapshot.fetch, snapshot.warnings)


def download_model_files(model: str, names: Sequence[str], *, client: HubClient | None = None) -> None:
    """Download small files of a model's repository into the hub's cache. Missing files are skipped.

    The hub is asked for the file list once. If it does not answer, no file is tried: the model may not exist, and the
    library would wait for each file.

    Raises:
        SourceError: It is missing, gated or unreachable.
    """
    from huggingface_hub import hf_hub_download

    client = replace(client or HubClient(), attempts=1, timeout=_PATIENCE)
    api = client.api()
    place = HubPlace(api.endpoint, model, None, kind="model")
    try:
        files = client.ask(lambda: _model_files(client, api, place), place)
        for name in sorted(files & {*names}):
            fetch = partial(hf_hub_download, model, name, endpoint=client.endpoint, cache_dir=client.cache_dir)
            client.ask(fetch, replace(place, file=name))
    except SourceError as error:
        raise SourceError(error.what.replace("dataset", "model"), where=error.where, hint=error.hint) from None


def _model_files(client: HubClient, api: HfApi, place: HubPlace) -> set[str]:
    with _answer_of_hub(place):
        info = api.model_info(place.dataset_id, timeout=client.timeout)
        return {file.rfilename for file in info.siblings or ()}


@dataclass(frozen=True, slots=True)
class _Digests:
    """The hub's digests of a file: SHA-256 of a large file, git's blob id of a small one."""

    sha256: str | None
    blob_id: str | None


@dataclass(frozen=True)
class _Snapshot:
    """A commit of a dataset. ``cached``: only the cache is used. ``stands_in``: the cache is used because the hub does
    not answer."""

    client: HubClient
    api: HfApi
    dataset_id: str
    commit: str
    digests: Mapping[str, _Digests] = field(repr=False)
    cached: bool = False
    stands_in: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.digests)

    @property
    def warnings(self) -> tuple[str, ...]:
        if not self.stands_in:
            return ()
        return (f"The hub could not be reached: commit {self.commit} from the cache may not be the newest.",)

    def fetch(self, name: str) -> DataFile:
        """Fetch a file, from the cache or the hub, and compare its content with the hub's digest."""
        place = HubPlace(self.api.endpoint, self.dataset_id, self.commit, name)
        if name not in self.digests:
            raise make_not_cached_error(place) if self.cached else make_no_file_error(place)
        for _ in range(2):  # a cached file may be damaged; the second attempt downloads it again
            file = self.client.ask(lambda: self._fetch_once(name), place)
            if file is not None:
                return file
        raise SourceError(
            "the file is corrupt: it was downloaded twice and does not match the hub's checksum",
            where=place.where,
            hint="Try again later, or check the proxy or mirror",
        )

    def _fetch_once(self, name: str) -> DataFile | None:
        """The file; None if it differs from the hub's digest, in which case it is removed from the cache."""
        path = Path(
            self.api.hf_hub_download(
                self.dataset_id,
                name,
                repo_type="dataset",
                revision=self.commit,
                cache_dir=self.client.cache_dir,
                local_files_only=self.cached,
            )
        )
        from huggingface_hub.utils.sha import git_hash

        expected = self.digests[name]
        sha256 = hash_file(path)
        if expected.sha256 is not None:
            intact = sha256 == expected.sha256
        elif expected.blob_id is not None:
            intact = git_hash(read_regular(path)) == expected.blob_id
        else:
            intact = True
        if intact:
            return DataFile(path, name, sha256)
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        return None


def _open(client: HubClient, dataset_id: str, revision: str | None) -> _Snapshot:
    """A dataset at a commit."""
    api = client.api()
    place = HubPlace(api.endpoint, dataset_id, revision)
    try:
        commit, digests = client.ask(lambda: _dataset_info(client, api, place), place)
    except UnreachableError as error:
        snapshot = _from_cache(client, api, place, error)
    else:
        snapshot = _Snapshot(client, api, dataset_id, commit, digests)
    if _CARD in snapshot.digests and not snapshot.cached and not _COMMIT.fullmatch(revision or ""):
        # Request by branch, so that the library's cache stores the branch's commit. Offline use needs that.
        client.ask(
            lambda: api.hf_hub_download(
                dataset_id, _CARD, repo_type="dataset", revision=revision, cache_dir=client.cache_dir
            ),
            replace(place, file=_CARD),
        )
    return snapshot


def _dataset_info(client: HubClient, api: HfApi, place: HubPlace) -> tuple[str, dict[str, _Digests]]:
    """The commit of a dataset, and the hub's digests of each of its files."""
    with _answer_of_hub(place):
        info = api.dataset_info(place.dataset_id, revision=place.revision, files_metadata=True, timeout=client.timeout)
        digests = {
            sibling.rfilename: _Digests(sibling.lfs.sha256 if sibling.lfs else None, sibling.blob_id)
            for sibling in info.siblings or ()
        }
        digests_of_files = [
            text for digest in digests.values() for text in (digest.sha256, digest.blob_id) if text is not None
        ]
        if (
            not is_name(info.sha)
            or not all(isinstance(text, str) for text in digests_of_files)
            or not all(map(is_inside, digests))
        ):
            raise TypeError
        return str(info.sha), digests


@contextmanager
def _answer_of_hub(place: HubPlace) -> Iterator[None]:
    """Turn malformed answers into an error: the library does not check them and fails in many ways."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        yield
    except (HfHubHTTPError, HFValidationError):
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise make_no_hub_error(place) from error


def _from_cache(client: HubClient, api: HfApi, place: HubPlace, error: UnreachableError) -> _Snapshot:
    """The cached files of the requested revision; raises ``error`` if there are none."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        snapshot: str | None = api.snapshot_download(
            place.dataset_id,
            repo_type="dataset",
            revision=place.revision,
            cache_dir=client.cache_dir,
            local_files_only=True,
        )
    except LocalEntryNotFoundError as exc:
        snapshot = getattr(exc, "snapshot_path", None)  # newer versions: incomplete, which is fine here
    if snapshot is None:
        raise error
    folder = Path(snapshot)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    digests = {name: _Digests(None, None) for name in names}
    stands_in = not error.by_choice and not _COMMIT.fullmatch(place.revision or "")
    return _Snapshot(client, api, place.dataset_id, folder.name, digests, cached=True, stands_in=stands_in)
