"""SHA-256 of texts, bytes, JSON and files, in hex. Every digest that is written or compared is made here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from meta_eval.base.inputs import open_data

_SORTED = json.JSONEncoder(sort_keys=True)


def hash_text(text: str) -> str:
    """The SHA-256 of a text in UTF-8. A lone surrogate, which JSON allows, is hashed as its three bytes."""
    return hash_bytes(text.encode("utf-8", "surrogatepass"))


def hash_bytes(content: bytes) -> str:
    """The SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def hash_json(value: Any) -> str:
    """The SHA-256 of a value as ASCII JSON with sorted keys.

    Raises:
        TypeError: JSON cannot hold the value.
    """
    return hash_text(_SORTED.encode(value))


def hash_texts(texts: Iterable[str]) -> str:
    """The SHA-256 of a list of texts: of each its length and the text."""
    return hash_text("".join([f"{len(text)}:{text}" for text in texts]))


def hash_pieces(pieces: Iterable[str]) -> str:
    """The SHA-256 of consecutive texts, without joining them in memory."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-256 of a regular file of at most `meta_eval.base.inputs.MAX_DATA` bytes.

    Raises:
        OSError: The file cannot be read, is not a regular file, or is too large.
    """
    with open_data(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Stands for a server that meta-eval starts for the run itself, on any free port.
OWN_SERVER = "own"

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORTS = {"http": 80, "https": 443}


def normalise_url(url: str) -> str:
    """Complete an address to ``…/v1``."""
    url = url.rstrip("/").removesuffix("/completions").removesuffix("/chat").rstrip("/")
    return url if urlsplit(url).path else f"{url}/v1"


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def hash_address(url: str) -> str:
    """The first 12 hex digits of the SHA-256 of an address, without user name, password and query.

    Spellings of one address have one hash: ``…/v1/`` and ``…/v1/chat/completions``, the default port, the names of this
    machine.

    Raises:
        ValueError: It is no address.
    """
    parts = urlsplit(normalise_url(url.partition("?")[0]))
    host = "localhost" if is_loopback(url) else (parts.hostname or "").lower()
    port = parts.port or _PORTS.get(parts.scheme, 0)
    return hash_text(f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}")[:12]
