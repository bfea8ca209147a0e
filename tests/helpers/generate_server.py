"""A server for the ``POST /generate`` of ``examples/generate_backend.py``."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def generate_server(
    *, fails_each: int, about: bytes = b'{"version": "1.0"}', cuts: int | None = None
) -> Iterator[tuple[str, list[int]]]:
    """Yield its address and the list of its statuses. Every ``fails_each``-th request fails once; ``about`` is what it
    says of itself. The request number ``cuts`` is cut, and then a page stands twice where it says that."""
    statuses: list[int] = []
    pages: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if cuts is not None and len(statuses) == cuts:
                statuses.append(0)
                pages.extend([b"<html>starting"] * 2)
                self.connection.shutdown(2)
                return
            statuses.append(500 if len(statuses) % fails_each == fails_each - 1 else 200)
            answer = {"generated_text": "The best answer is A."} if statuses[-1] == 200 else {}
            self._say(statuses[-1], json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._say(200, pages.pop() if pages else about)

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", statuses
    finally:
        server.shutdown()
        server.server_close()
