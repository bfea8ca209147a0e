"""A small local Hugging Face hub over real HTTP, which can fail in every way of the real hub.

It answers the requests of ``huggingface_hub`` for datasets: ``/api/datasets/<id>[/revision/<rev>]``, and HEAD and GET
of ``/datasets/<id>/resolve/<rev>/<file>``. Big files (parquet) are Git LFS. They are served from ``/cdn/<sha256>``
under another host name, as the real hub redirects to a CDN. Every request is recorded.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import unquote, urlsplit

ERROR_MESSAGES = {
    "RepoNotFound": "Repository not found",
    "RevisionNotFound": "Invalid rev id",
    "EntryNotFound": "Entry not found",
    "GatedRepo": "Access to this dataset is restricted",
}


@dataclass(frozen=True)
class Request:
    """A received request. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Fault:
    """A failure of requests whose path contains ``path``.

    Attributes:
        times: How often it occurs. None is always.
        status: Answers with this error.
        code: ``X-Error-Code`` of the error.
        cut: Closes the connection after this many bytes of body, or with -1 before any answer.
        corrupt: Changes the body but not its length.
        silent: Never answers.
        body: Answers with this body.
    """

    path: str
    method: str | None = None
    times: int | None = None
    status: int | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    corrupt: bool = False
    silent: bool = False
    body: bytes | None = None


class FakeHub:
    """The hub as a context manager. ``url`` is the value for ``HF_ENDPOINT``."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, dict[str, bytes]]] = {}
        self.heads: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.connections: list[socket.socket] = []
        self._lock = threading.Lock()
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def cdn(self) -> str:
        return f"http://localhost:{self._server.server_address[1]}/cdn"

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the server. Its port then refuses connections."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in self.connections:  # a client that kept them open would still get answers
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def add(self, dataset_id: str, files: Mapping[str, bytes]) -> str:
        """Push a commit of exactly these files, and return its id."""
        content = {".gitattributes": b"*.parquet filter=lfs\n", **files}
        digest = hashlib.sha1(json.dumps({name: sha256(data) for name, data in content.items()}).encode())
        commit = digest.hexdigest()
        self.repos.setdefault(dataset_id, {})[commit] = content
        self.heads[dataset_id] = commit
        return commit

    def move(self, old: str, new: str) -> None:
        """Rename a dataset. Its former id is redirected."""
        self.moved[old] = new

    def fail(self, path: str, **how: object) -> None:
        self.faults.append(Fault(path, **how))  # type: ignore[arg-type]

    def seen(self, part: str = "", method: str | None = None) -> list[Request]:
        """Return the requests so far whose path contains ``part``."""
        return [r for r in self.requests if part in r.path and method in (None, r.method)]

    def record(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            for fault in self.faults:
                if fault.path in request.path and fault.method in (None, request.method) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def is_lfs(name: str) -> bool:
    return ".parquet" in name


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    disable_nagle_algorithm = True  # otherwise the body's packet waits 40 ms for the head's

    def log_message(self, *args: object) -> None:
        """Log nothing, because stderr belongs to the tested code."""

    def setup(self) -> None:
        super().setup()
        self.hub.connections.append(self.connection)

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.hub.record(Request(self.command, path, headers)) or Fault("")
        if fault.silent:
            self.hub.closing.wait()
        if fault.silent or fault.cut == -1:
            self.close_connection = True
            return
        if fault.status is not None:
            self._error(fault.status, fault.code, fault.headers)
            return
        if fault.body is not None:
            self._send(200, fault.body, fault=Fault(""))
            return
        self._route(path, fault)

    def _route(self, path: str, fault: Fault) -> None:
        if path.startswith("/api/models/"):  # models and datasets share a folder here
            path = path.replace("models", "datasets", 1)
        elif "/resolve/" in path and not path.startswith("/datasets/"):
            path = f"/datasets{path}"
        for old, new in self.hub.moved.items():
            if path.startswith((f"/api/datasets/{old}", f"/datasets/{old}/")):
                self._send(307, b"", {"Location": path.replace(old, new, 1)}, fault)
                return
        if path.startswith("/cdn/"):
            every = (
                data for commits in self.hub.repos.values() for files in commits.values() for data in files.values()
            )
            self._send(200, next(data for data in every if sha256(data) == path[5:]), fault=fault)
            return
        root = "/api/datasets/" if path.startswith("/api/datasets/") else "/datasets/"
        rest = path.removeprefix(root).split("/")
        dataset_id, rest = "/".join(rest[:2]), rest[2:]
        commits = self.hub.repos.get(dataset_id)
        if not path.startswith(root) or commits is None:
            self._error(404, "RepoNotFound")
            return
        revision = rest[1] if len(rest) > 1 else "main"
        commit = self.hub.heads[dataset_id] if revision == "main" else revision
        if commit not in commits:
            self._error(404, "RevisionNotFound")
        elif root == "/api/datasets/":
            self._info(dataset_id, commit, commits[commit], fault)
        elif "/".join(rest[2:]) not in commits[commit]:
            self._error(404, "EntryNotFound", {"X-Repo-Commit": commit})
        else:
            self._file("/".join(rest[2:]), commit, commits[commit], fault)

    def _info(self, dataset_id: str, commit: str, files: Mapping[str, bytes], fault: Fault) -> None:
        siblings: list[dict[str, object]] = []
        for name, data in files.items():
            sibling: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": blob_id(data)}
            if is_lfs(name):
                sibling["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            siblings.append(sibling)
        info = {"id": dataset_id, "sha": commit, "gated": False, "private": False, "siblings": siblings}
        self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"}, fault)

    def _file(self, name: str, commit: str, files: Mapping[str, bytes], fault: Fault) -> None:
        data = files[name]
        etag = sha256(data) if is_lfs(name) else blob_id(data)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{etag}"'}
        if is_lfs(name):
            linked = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data))}
            self._send(302, b"", {**headers, **linked, "Location": f"{self.hub.cdn}/{sha256(data)}"}, fault)
        else:
            self._send(200, data, headers, fault)

    def _error(self, status: int, code: str | None, headers: Mapping[str, str] | None = None) -> None:
        explained = {"X-Error-Code": code, "X-Error-Message": ERROR_MESSAGES.get(code, code)} if code else {}
        body = json.dumps({"error": "no"}).encode()
        self._send(status, body, {**explained, **(headers or {})}, Fault(""))

    def _send(
        self, status: int, data: bytes, headers: Mapping[str, str] | None = None, fault: Fault | None = None
    ) -> None:
        fault = fault or Fault("")
        extra = dict(headers or {})
        wanted = self.headers.get("Range")
        if status == 200 and wanted is not None and self.command == "GET":
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            extra["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            status, data = 206, data[start:]
        if fault.corrupt:
            data = bytes(byte ^ 0xFF for byte in data)
        self.send_response(status)
        for name, value in {**extra, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.cut is not None:
            data, self.close_connection = data[: fault.cut], True
        self.wfile.write(data)
