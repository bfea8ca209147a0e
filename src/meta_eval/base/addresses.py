"""The addresses of endpoints, and their hashes: files of answers and results hold only these."""

from __future__ import annotations

from urllib.parse import urlsplit

from meta_eval.base.hashing import hash_text

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
