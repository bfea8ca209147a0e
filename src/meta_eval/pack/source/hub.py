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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from meta_eval.base.errors import SourceError
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import read_regular
from meta_eval.base.logs import without_secrets
from meta_eval.base.pack_names import is_inside, is_name
from meta_eval.pack.source.dataset import DataFile, Repository
from meta_eval.pack.source.hub_faults import (
    HubPlace,
    UnreachableError,
    diagnose_fault,
    make_no_file_error,
    make_no_hub_error,
    make_not_cached_error,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_T = TypeVar("_T")
# Seconds for an answer about a model; its name may exist only on a server.
_PATIENCE = 10.0

_COMMIT = re.compile(r"[0-9a-f]{40}")

# The card of a dataset.
CARD = "README.md"


@dataclass(frozen=True)
class HubClient:
    """Settings of access to the hub: address, cache, retries and timeouts.

    Attributes:
        endpoint: Address of the hub; None for ``HF_ENDPOINT`` or the public hub.
        cache_dir: The cache; None for the library's own.
        attempts: Total attempts of a request.
        timeout: Seconds to wait for an answer about a dataset.
        first_delay: Seconds before the second attempt; each later delay is twice as long, plus or minus a quarter.
        longest_wait: Longest accepted ``Retry-After``, in seconds; a longer one is a failure.
        sleep: Waits some seconds.
        jitter: Gives a random number in [0, 1), so that many clients do not retry in step.
    """

    endpoint: str | None = None
    cache_dir: Path | None = None
    attempts: int = 4
    timeout: float = 30.0
    first_delay: float = 1.0
    longest_wait: float = 300.0
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

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
    if CARD in snapshot.digests and not snapshot.cached and not _COMMIT.fullmatch(revision or ""):
        # Request by branch, so that the library's cache stores the branch's commit. Offline use needs that.
        client.ask(
            lambda: api.hf_hub_download(
                dataset_id, CARD, repo_type="dataset", revision=revision, cache_dir=client.cache_dir
            ),
            replace(place, file=CARD),
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
