"""Turns failures of the hub into messages, and says whether another attempt may help."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from meta_eval.base.errors import SourceError
from meta_eval.base.secrets import redact_secrets


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


class UnreachableError(SourceError):
    """The hub did not answer. ``by_choice``: ``HF_HUB_OFFLINE`` forbids requests."""

    by_choice = False


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
        error = SourceError("this is not the id of a dataset", where=place.dataset_id, hint="Ids look like owner/name")
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
