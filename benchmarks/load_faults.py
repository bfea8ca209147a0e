"""A proxy that spoils the answers of a real server, as a fault of its engine would, and only when it is full.

    python benchmarks/load_faults.py UPSTREAM FAULT --share 0.01 [--above 4] [--port 0]

It hands requests on to ``UPSTREAM`` (http://127.0.0.1:8000) and prints its own address. Above so many requests in
flight a share of the completions is spoiled:

- ``exchange``: the answer of another request that is in flight;
- ``splice``: twenty words of another answer in the middle;
- ``tail``: the last third of a text is lost, and the count of tokens stays;
- ``busy``: the status 429, so that the client asks again;
- ``slow``: the right answer, half a second later;
- ``none``.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FAULTS = ("none", "exchange", "splice", "tail", "busy", "slow")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Faulty:
    """Spoils texts, by what else is in flight."""

    def __init__(self, fault: str, share: float, above: int, seed: int = 0) -> None:
        self.fault, self.share, self.above = fault, share, above
        self._rng = random.Random(seed)
        self._recent: deque[str] = deque(maxlen=8)
        self._lock = threading.Lock()
        self.in_flight = self.spoiled = 0

    def choose(self, length: int) -> str:
        """The fault of a request; short requests are left alone."""
        with self._lock:
            full = self.in_flight > self.above
            hit = self._rng.random() < self.share
        return self.fault if full and length > 4 and hit else "none"

    def spoil(self, text: str, fault: str) -> str:
        """A text with its fault; one that has no other text to take from is left alone."""
        with self._lock:
            others = [other for other in self._recent if other != text]
            other = self._rng.choice(others) if others else None
            self._recent.append(text)
        done = text
        if fault == "tail" and len(text) > 40:
            done = text[: 2 * len(text) // 3]
        elif other is not None and fault == "exchange":
            done = other
        elif other is not None and fault == "splice":
            words, foreign = text.split(" "), other.split(" ")[-20:]
            half = len(words) // 2
            done = " ".join([*words[:half], *foreign, *words[half:]])
        self.spoiled += done != text
        return done


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    upstream = ""
    faulty: Faulty

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is none of our errors."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._send(*_fetch(self.server.upstream + self.path, None))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body, faulty = json.loads(raw), self.server.faulty
        faulty.in_flight += 1
        try:
            # Texts alone: not what is scored.
            wants_text = not (body.get("logprobs") or body.get("prompt_logprobs") or body.get("echo"))
            fault = faulty.choose(body.get("max_tokens", 0) if wants_text else 0)
            if fault == "busy":
                self._send(429, b'{"error": {"message": "too many requests"}}')
                return
            status, answer = _fetch(self.server.upstream + self.path, raw)
            if fault == "slow":
                time.sleep(0.5)
            if status == 200 and wants_text and body.get("max_tokens", 0) > 4 and "/completions" in self.path:
                tree = json.loads(answer)
                choice = tree["choices"][0]
                place, key = (choice["message"], "content") if "message" in choice else (choice, "text")
                place[key] = faulty.spoil(place[key], fault)
                choice.pop("token_ids", None)
                answer = json.dumps(tree).encode()
            self._send(status, answer)
        finally:
            faulty.in_flight -= 1

    def _send(self, status: int, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _fetch(url: str, raw: bytes | None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, raw, {"Content-Type": "application/json"})
    try:
        with _OPENER.open(request, timeout=600) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def serve(upstream: str, faulty: Faulty, port: int = 0) -> _Server:
    """Listen in a thread of its own; ``server_address`` of what is returned has the port."""
    server = _Server(("127.0.0.1", port), _Handler)
    server.upstream, server.faulty = upstream.rstrip("/"), faulty
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upstream")
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--above", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    faulty = Faulty(given.fault, given.share, given.above, given.seed)
    server = serve(given.upstream, faulty, given.port)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print(f"{faulty.spoiled} answers were spoiled")


if __name__ == "__main__":
    main()
