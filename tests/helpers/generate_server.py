"""A backend for servers with a ``/generate`` of their own, as a package of somebody else's would bring it, and such a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from meta_eval.backends.base import Backend
from meta_eval.running.client import EngineResponse
from meta_eval.running.connection import Connection
from meta_eval.running.servers_client import Job, RefusedError, ServersClient


class GenerateBackend(Backend):
    name = "generate"
    kinds = frozenset({"generate"})

    def load_client(self) -> type[GenerateClient]:
        return GenerateClient


class GenerateConnection(Connection):
    async def meet(self) -> None:
        await self.post("/generate", {"inputs": "1", "parameters": {"max_new_tokens": 1}})
        self.engine = "generate 1.0"


class GenerateClient(ServersClient[GenerateConnection]):
    def connect(self, url: str, model: str, key: str | None) -> GenerateConnection:
        return GenerateConnection(url, self.settings, model, key)

    async def ask(self, server: GenerateConnection, job: Job) -> EngineResponse:
        request = job.ask.request
        parameters = {"max_new_tokens": request.max_tokens, "stop": [*request.stop, *self.end]}
        answer = await server.post("/generate", {"inputs": request.prompt, "parameters": parameters})
        if isinstance(answer, str):
            raise RefusedError(answer)
        return EngineResponse(request, text=answer["generated_text"])


@contextmanager
def generate_server(*, fails_each: int) -> Iterator[tuple[str, list[int]]]:
    """Its address, and the statuses that it answered with: each so manieth request fails once."""
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            statuses.append(500 if len(statuses) % fails_each == fails_each - 1 else 200)
            said: dict[str, Any] = {"generated_text": "The best answer is A."} if statuses[-1] == 200 else {}
            body = json.dumps(said).encode()
            self.send_response(statuses[-1])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", statuses
    finally:
        server.shutdown()
        server.server_close()
