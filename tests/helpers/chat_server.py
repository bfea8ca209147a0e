"""An endpoint of ``/v1/chat/completions`` whose replies a test decides, byte by byte."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A reply. A ``cut`` one is cut in its middle."""

    content: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    @property
    def raw(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()


def completion(message: object, finish: object = "stop", *, prompt_tokens: int = 7, **fields: Any) -> Body:
    """A chat.completion with a message, or a text."""
    message = {"role": "assistant", "content": message} if isinstance(message, str) else message
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 3, "total_tokens": prompt_tokens + 3}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"object": "chat.completion", "model": "tiny", "choices": [choice], "usage": usage, **fields}


def stream(body: Body, *, done: bool = True, pieces: int = 3) -> bytes:
    """A completion as a stream, with each text in pieces and usage in the last chunk."""
    events: list[Any] = []
    for choice in body["choices"]:
        for delta in _deltas(choice["message"], pieces):
            events.append({"choices": [{"index": choice["index"], "delta": delta, "finish_reason": None}]})
        if done:
            events.append(
                {"choices": [{"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}]}
            )
    events.append({"choices": [], "usage": body.get("usage"), "model": "tiny"})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


def _deltas(message: Body, pieces: int) -> list[Body]:
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning", "reasoning_content", "content"):
        text = message.get(name)
        size = max(1, -(-len(text or "") // pieces))
        deltas += [{name: text[start : start + size]} for start in range(0, len(text or ""), size)]
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        half = len(function["arguments"]) // 2
        first = {"name": function["name"], "arguments": function["arguments"][:half]}
        deltas.append({"tool_calls": [{"index": index, "id": "c", "type": "function", "function": first}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"][half:]}}]})
    return deltas


class ChatServer:
    """A context manager that listens on a local port.

    Attributes:
        bodies: The bodies of all requests.
        headers: The Authorization of all requests.
    """

    def __init__(self, reply: Callable[[Body], Reply | Body], *, models: Any = None) -> None:
        self.bodies: list[Body] = []
        self.headers: list[str | None] = []
        card = {"id": "tiny", "owned_by": "fake", "max_model_len": 262144}
        self.models = Reply({"data": [card]} if models is None else models)
        chat = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self.answer(chat.models if self.path == "/v1/models" else Reply({}, 404))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                chat.bodies.append(body)
                chat.headers.append(self.headers.get("Authorization"))
                made = reply(body) if self.path == "/v1/chat/completions" else Reply({}, 404)
                self.answer(made if isinstance(made, Reply) else Reply(made))

            def answer(self, made: Reply) -> None:
                self.send_response(made.status)
                for name, value in {"Content-Length": str(len(made.raw)), **made.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(made.raw[: len(made.raw) // 2] if made.cut else made.raw)
                if made.cut:
                    self.wfile.flush()
                    self.close_connection = True
                    with suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ChatServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
