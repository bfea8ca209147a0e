"""A server of recorded answers: ``/v1/models``, and ``/v1/completions`` for text prompts that are in the pack."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from meta_eval.ask.request_kinds import build_requests
from meta_eval.base.logs import report_progress
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.integrity import check_unchanged
from meta_eval.plugins.stand_in.backend import ENGINE
from meta_eval.plugins.stand_in.record import StandInRecord
from meta_eval.sockets import BackendError, ConfigError, parse_json, read_manifest

# Bytes of a body that is read. The longest prompts of Meta's datasets have under 1 MiB.
_MOST = 64 << 20

_HOST = "127.0.0.1"


def read_texts(pack: Path, spoil: float) -> tuple[str, Mapping[str, Sequence[str]]]:
    """Read the recorded texts of a pack.

    Args:
        pack: The pack.
        spoil: The share of docs whose answers are spoiled.

    Returns:
        The name of the model, and by prompt the recorded answers: several where docs share a prompt.

    Raises:
        PackError: The folder is not a pack or was edited, or lm-eval cannot load a task.
        ConfigError: No task of it has recorded texts.
    """
    manifest = read_manifest(pack)
    check_unchanged(pack, manifest, edited=False)
    record, evaluator = StandInRecord(pack, spoil), Evaluator(pack)
    texts: dict[str, list[str]] = {}
    for name, entry in manifest.tasks.items():
        report_progress(name, 0, entry.docs)
        for request in build_requests(evaluator, name, manifest.run_settings.limit):
            if request.kind != "generate":
                break
            answer = record.answer(request)
            if answer.text is not None:
                texts.setdefault(request.prompt, []).append(answer.text)
    if not texts:
        raise ConfigError(
            "no task of it has recorded texts", where=str(pack),
            hint="Set backend: recorded, which answers multiple choice too",
        )  # fmt: skip
    return manifest.run_settings.model_name, texts


class StandIn:
    """Listens on this machine alone, inside the ``with`` block.

    Args:
        model: The name of the model.
        texts: By prompt the answers, which are given in turn.
        port: The port; 0 for any that is free.

    Raises:
        BackendError: The port cannot be used.
    """

    def __init__(self, model: str, texts: Mapping[str, Sequence[str]], port: int) -> None:
        self.model, self._texts = model, texts
        self._given: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._serves = False
        try:
            self._http = _Server((_HOST, port), _Handler)
        except OSError as error:
            raise BackendError(
                f"cannot be used: {error.strerror or error}", where=f"--port {port}", hint="Name another, or 0"
            ) from None
        self._http.stand_in = self

    @property
    def url(self) -> str:
        """The address, as ``base_url`` takes it."""
        return f"http://localhost:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._serves:  # in another thread
            self._http.shutdown()
        self._http.server_close()

    def serve(self) -> None:
        """Answer until the process is interrupted, or another thread leaves the block."""
        self._serves = True
        try:
            self._http.serve_forever(poll_interval=0.1)
        finally:
            self._serves = False

    def find_text(self, prompt: str) -> str | None:
        """The next answer to a prompt; None if the pack does not have the prompt."""
        answers = self._texts.get(prompt)
        if answers is None:
            return None
        with self._lock:
            number = self._given[prompt]
            self._given[prompt] += 1
        return answers[number % len(answers)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    stand_in: StandIn

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none of our errors."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    server: _Server
    server_version = "stand-in"
    timeout = 600

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a run has thousands of requests."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            # A run names its engine by the owner: the alarm of `StandInEvidence` knows a recording by it.
            card = {"id": self.server.stand_in.model, "object": "model", "owned_by": ENGINE}
            self._send(200, {"object": "list", "data": [card]})
        else:
            self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length[:12]) > _MOST:
            self.close_connection = True
            self._refuse(413, f"the body has no length, or more than {_MOST:,} bytes")
            return
        raw = self.rfile.read(int(length))
        if self.path.rstrip("/") != "/v1/completions":
            self._refuse(404, "there is no such page: this server answers /v1/completions")
            return
        try:
            body = parse_json(raw)
        except ValueError as error:
            self._refuse(400, f"not JSON: {error}")
            return
        self._complete(body)

    def _complete(self, body: Any) -> None:
        prompts = body.get("prompt") if isinstance(body, dict) else None
        prompts = [prompts] if isinstance(prompts, str) else prompts
        if not isinstance(prompts, list) or not prompts or not all(isinstance(prompt, str) for prompt in prompts):
            self._refuse(422, "prompt: a text is wanted, or a list of texts")
            return
        if body.get("echo") or body.get("logprobs") or body.get("prompt_logprobs"):
            self._refuse(400, "there are no log-probabilities: this server has recorded texts alone")
            return
        # Clients ask for a single token to see whether the address answers.
        is_probe = body.get("max_tokens") == 1
        texts = ["."] * len(prompts) if is_probe else list(map(self.server.stand_in.find_text, prompts))
        if None in texts:
            self._refuse(404, "this prompt is not in the pack")
            return
        places = itertools.count()
        choices = [{"index": next(places), "text": text, "finish_reason": "stop"} for text in texts]
        self._send(200, {"object": "text_completion", "model": self.server.stand_in.model, "choices": choices})

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, {"error": {"message": message, "code": status}})

    def _send(self, status: int, tree: Any) -> None:
        raw = json.dumps(tree).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
