"""A chat endpoint that keeps what it was asked, and stock lm-eval's client of it."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = ("It is\n#### {}", "so 2 more is {}", "I am not sure.")


class ChatStub:
    """A context manager that listens on a local port. An answer depends on the last question alone.

    Attributes:
        bodies: All requests, in the order in which they came.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.bodies.append(body)
                content = json.dumps(_answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ChatStub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take_bodies(self) -> list[str]:
        """What was asked since the last call, each as sorted JSON, in sorted order."""
        bodies, self.bodies = self.bodies, []
        return sorted(json.dumps(body, sort_keys=True) for body in bodies)


def open_stock_client(stub: ChatStub, **arguments: Any) -> Any:
    """lm-eval's ``local-chat-completions``, which a stock command would make."""
    from lm_eval.models.openai_completions import LocalChatCompletion

    return LocalChatCompletion(model="org/chat", base_url=f"{stub.url}/chat/completions", max_retries=1, **arguments)


def _answer(body: dict[str, Any]) -> dict[str, Any]:
    question = body["messages"][-1]["content"].rpartition("Question:")[2]
    number = sum(int(word) for word in question.replace(".", " ").split() if word.isdigit())
    text = ANSWERS[hashlib.sha256(question.encode()).digest()[0] % len(ANSWERS)].format(number)
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    return {"id": "chat", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
