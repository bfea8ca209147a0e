"""A server that behaves as vLLM's ``/v1/completions`` and can fail on demand.

Its answer depends only on the prompt, so any two runs over the same pack get the same scores.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
# Returns the fault of a completion by its number, from 0, and its body, or None.
Faults = Callable[[int, Body], str | None]

FIELDS = frozenset(
    (
        "model", "prompt", "max_tokens", "temperature", "stop", "seed", "logprobs", "echo", "top_p", "n",
    )
)  # fmt: skip
OF_VLLM = frozenset(
    (
        "return_token_ids", "skip_special_tokens", "spaces_between_special_tokens", "repetition_penalty",
        "logprob_token_ids", "return_tokens_as_token_ids", "prompt_logprobs", "top_k",
    )
)  # fmt: skip
OF_LLAMACPP = frozenset(("grammar", "logit_bias", "post_sampling_probs", "cache_prompt"))
_PROBE = [0, 0, 0]


class FakeServer:
    """A context manager that listens on a local port.

    Args:
        faults: Returns the fault of a request.
        takes: The known fields of a request.
        refuses_others: Refuse other fields. By default they are ignored as in vLLM.
        token_ids: Accept token ids as a prompt.
        ids_end_in: Status of the answer to token ids otherwise. 200 treats each id as a prompt, 0 cuts the connection.
        listed: The listed id, by default ``model``.
        others: Further listed ids.
        says_length: List the length of the context.
        card: Further listed fields of the model.
        pages: Paths with an answer.
        tokenizer: Answers ``/tokenize`` and ``/detokenize``, as llama.cpp's server.
        seconds: Time of an answer.
        model: The name of the served model.
        encode: Makes token ids of text, including BOS.
        retry_after: The seconds in its answer when it is busy.
        complete: Makes a completion of a body and ``encode``; by default that of the prompt's hash.
        metrics: The page ``/metrics``; None for none.

    Attributes:
        answered: How often each prompt got a complete answer.
        bodies: All requests, including probes.
        most: The highest number of concurrent requests.
    """

    def __init__(
        self, *, faults: Faults = lambda _number, _body: None, takes: frozenset[str] = FIELDS | OF_VLLM,
        refuses_others: bool = False, token_ids: bool = True, seconds: float = 0.0, model: str = "tiny",
        max_model_len: int = 262144, key: str | None = None, port: int | None = None, retry_after: float = 1,
        encode: Callable[[str], list[int]] = lambda text: [0, *text.encode()],
        ids_end_in: int = 422, listed: str | None = None, says_length: bool = True, card: Body | None = None,
        pages: tuple[str, ...] = ("/completions",), others: tuple[str, ...] = (), tokenizer: Any = None,
        complete: Callable[[Body, Callable[[str], list[int]]], dict[str, Any]] | None = None,
        metrics: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        self.complete, self.metrics = complete or completion, metrics
        self.faults, self.takes, self.refuses_others, self.token_ids = faults, takes, refuses_others, token_ids
        self.seconds, self.model, self.max_model_len, self.key = seconds, model, max_model_len, key
        self.retry_after, self.ids_end_in, self.pages = retry_after, ids_end_in, pages
        self.tokenizer = tokenizer
        self.listed, self.says_length, self.card = listed or model, says_length, card or {}
        self.others = others
        self.answered: Counter[str] = Counter()
        self.bodies: list[Body] = []
        self.most = self.now = self.number = 0
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.open: set[socket.socket] = set()
        self.encode = encode
        self.listener: socket.socket | None = socket.socket()  # kept, so that nobody else gets the port
        if port:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # of a server that has just ended
        self.listener.bind(("127.0.0.1", port or 0))
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # for one that comes back
        self.port: int = self.listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> FakeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def start(self) -> None:
        self.stopping.clear()
        self.http = _Http(("127.0.0.1", self.port), _Handler, bind_and_activate=False)
        if self.listener:
            self.http.socket.close()
            self.http.socket, self.listener = self.listener, None
        else:
            self.http.server_bind()
        self.http.server_activate()
        self.http.fake = self
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def die(self) -> None:
        """Cut all connections and stop listening."""
        self.stopping.set()
        self.http.shutdown()
        self.http.server_close()
        with self.lock:
            for connection in self.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def prompts(self) -> list[str]:
        """Return all prompts except probes."""
        return [key_of(body) for body in self.bodies if body.get("prompt") not in (_PROBE, "1")]


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    fake: FakeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a connection that was cut on purpose."""


def key_of(body: Body) -> str:
    return json.dumps(body["prompt"])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    server: _Http
    server_version = "fake/1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def setup(self) -> None:
        super().setup()
        with self.server.fake.lock:
            self.server.fake.open.add(self.connection)

    def finish(self) -> None:
        with self.server.fake.lock:
            self.server.fake.open.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def send(self, status: int, tree: Any, **headers: str) -> None:
        raw = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        fields = {"Server": self.server_version, "Content-Length": str(len(raw)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items()]
        begin = f"HTTP/1.1 {status} {self.responses[status][0]}\r\n{''.join(lines)}\r\n"
        self.wfile.write(begin.encode("latin-1") + raw)

    def refuse(self, status: int, message: str, **headers: str) -> None:
        self.send(status, {"error": {"message": message, "code": status}}, **headers)

    def do_GET(self) -> None:
        fake = self.server.fake
        if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
            self.refuse(401, f"{self.headers.get('Authorization')} is no key of ours")
        elif self.path == "/v1/models":
            more = {"max_model_len": fake.max_model_len} if fake.says_length else fake.card
            cards = [{"id": name, "root": name, "owned_by": "vllm", **more} for name in (fake.listed, *fake.others)]
            self.send(200, {"object": "list", "data": cards})
        elif self.path == "/health":
            self.send(200, b"")
        elif self.path == "/metrics" and fake.metrics is not None:
            self.send(200, fake.metrics().encode())
        elif self.path == "/version":
            self.send(200, {"version": "0.0.fake"})
        else:
            self.refuse(404, "no such page")

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with fake.lock:
            fake.bodies.append(body)
            fake.now += 1
            fake.most = max(fake.most, fake.now)
            number = fake.number
            probe = body.get("prompt") in (_PROBE, "1")
            fake.number += not probe
        try:
            if fake.tokenizer and self.path in ("/tokenize", "/detokenize"):
                self.send(200, tokenized(fake.tokenizer, body))
            elif self.path.removeprefix("/v1") not in fake.pages:
                self.refuse(404, "Not Found")
            elif "messages" in body:
                self.send(200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "1"}}]})
            else:
                self.complete(fake, body, None if probe else fake.faults(number, body))
        finally:
            with fake.lock:
                fake.now -= 1

    def complete(self, fake: FakeServer, body: Body, fault: str | None) -> None:
        unknown = sorted(set(body) - fake.takes)
        if fake.refuses_others and unknown:
            self.refuse(400, f"Unrecognized request argument supplied: {unknown[0]}")
            return
        if not fake.token_ids and not isinstance(body["prompt"], str):
            if fake.ids_end_in == 200:  # each id counts as a prompt
                known = {name: value for name, value in body.items() if name in fake.takes}
                several = [completion({**known, "prompt": str(prompt)}, fake.encode) for prompt in body["prompt"]]
                self.send(200, {**several[0], "choices": [prompt["choices"][0] for prompt in several]})
            elif fake.ids_end_in:
                self.refuse(fake.ids_end_in, "prompt: Input should be a valid string")
            else:
                self.close_connection = True
            return
        if fault == "busy":
            self.refuse(429, "too many requests", Retry_After=f"{fake.retry_after:g}")
            return
        if fault == "broken":
            self.refuse(500, "internal error")
            return
        if fault == "refused":
            self.refuse(400, "this prompt is not to my liking")
            return
        if fault == "hangs":  # whoever asked gives up before, and asks again
            with fake.lock:
                fake.now -= 1
            fake.stopping.wait(30)
            with fake.lock:
                fake.now += 1
            self.close_connection = True
            return
        time.sleep(random.random() * 0.1 if fault == "another order" else fake.seconds)
        known = {name: value for name, value in body.items() if name in fake.takes}
        raw = json.dumps(fake.complete(known, fake.encode)).encode()
        if fault == "half":
            self.send(200, raw[: len(raw) // 2])
        elif fault == "cut":
            self.send(200, raw[: len(raw) // 2], Content_Length=str(len(raw)))
            self.close_connection = True
        elif fault == "shorter":
            tree = json.loads(raw)
            tree["choices"][0]["prompt_token_ids"] = tree["choices"][0]["prompt_token_ids"][1:]
            self.send(200, tree)
        else:
            if fake.stopping.is_set():
                return
            self.send(200, raw)
            if body["prompt"] not in (_PROBE, "1"):
                with fake.lock:
                    fake.answered[key_of(body)] += 1


def tokenized(tokenizer: Any, body: Body) -> dict[str, Any]:
    """Return what llama.cpp's pages for tokens answer."""
    if "tokens" in body:
        return {"content": tokenizer.decode(body["tokens"], skip_special_tokens=False)}
    return {"tokens": tokenizer.encode(body["content"], add_special_tokens=body["add_special"]).ids}


def completion(body: Body, encode: Callable[[str], list[int]]) -> dict[str, Any]:
    """Return the completion that the prompt's hash determines."""
    prompt = body["prompt"]
    digest = hashlib.sha256(json.dumps(prompt).encode()).digest()
    ids = prompt if isinstance(prompt, list) else encode(prompt)
    written = list(digest[:8]) if body["max_tokens"] > 1 else [digest[0]]
    choice: dict[str, Any] = {
        "index": 0,
        "text": f"The answer is {'ABCD'[digest[0] % 4]}. The best answer is {'ABCD'[digest[0] % 4]}.",
        "finish_reason": "length" if digest[1] < 32 else "stop",
    }
    if body.get("return_token_ids"):
        choice |= {"token_ids": written, "prompt_token_ids": ids}
    if body.get("logprob_token_ids") and body.get("return_tokens_as_token_ids"):
        top = {f"token_id:{token}": logprob(ids, token) for token in body["logprob_token_ids"]}
        likeliest = max(top, key=lambda name: top[name])
        choice["logprobs"] = {"tokens": [likeliest], "token_logprobs": [top[likeliest]], "top_logprobs": [top]}
    elif body.get("echo") and "logprobs" in body:
        own = [None, *(logprob(ids[:place], token) for place, token in enumerate(ids) if place), -1.0]
        tops = [None if token is None else {"x": token} for token in own]
        choice["logprobs"] = {"tokens": ["?"] * len(own), "token_logprobs": own, "top_logprobs": tops}
    elif "grammar" in body:
        choice["logprobs"] = {"content": write_by_grammar(body, ids)}
    if "prompt_logprobs" in body:
        result: Sequence[Any] = [
            {str(token): {"logprob": logprob(ids[:n], token), "rank": 1}} for n, token in enumerate(ids)
        ]
        for n, place in enumerate(result):
            for more in range(1, body["prompt_logprobs"] + 1):  # likelier tokens at every third position
                if n % 3 == 0:
                    (own,) = [entry for name, entry in place.items() if name == str(ids[n])]
                    own["rank"] = more + 1
                    likelier = {"logprob": own["logprob"] + more / 64, "rank": body["prompt_logprobs"] + 1 - more}
                else:
                    likelier = {"logprob": place[str(ids[n])]["logprob"] - more, "rank": more + 1}
                place[str(ids[n] + more)] = likelier
        choice["prompt_logprobs"] = [None, *result[1:]]
    usage = {
        "prompt_tokens": len(ids),
        "completion_tokens": len(written),
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    return {"object": "text_completion", "choices": [choice], "usage": usage}


def write_by_grammar(body: Body, prompt: Sequence[int]) -> list[dict[str, Any]]:
    """Return what llama.cpp's server writes under a grammar of token ids, with the likeliest tokens of each place.

    Token 1 ends every answer. A multiple of 7 is part of a character: no grammar allows it. Any other grammar writes 2.
    The likeliest tokens are among the first 8, or among all 300 if 100 are requested.
    """
    tokens = range(300 if body["logprobs"] >= 100 else 8)
    forced = [int(token) for token in re.findall(r"<\[(\d+)\]>", body["grammar"])]
    writable = list(itertools.takewhile(lambda token: token % 7, forced)) if forced else [2]
    ended = [*writable, 1] if len(writable) < len(forced) else writable
    written = ended[: ended.index(1) + 1] if 1 in ended else ended
    entries = []
    for place, token in enumerate(written):
        context = [*prompt, *written[:place]]
        order = sorted(tokens, key=lambda other: (-logprob(context, other), other))[: body["logprobs"]]
        tops = [{"id": other, "logprob": logprob(context, other)} for other in order]
        entries.append({"id": token, "logprob": logprob(context, token), "top_logprobs": tops})
    return entries


def logprob(context: Sequence[int], token: int) -> float:
    """Compute it from only the number of preceding tokens and the last, because a prompt has thousands."""
    digest = hashlib.sha256(json.dumps([len(context), *context[-16:], token]).encode()).digest()
    return -(1 + digest[0]) / 16
