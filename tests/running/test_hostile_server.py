"""What answers may be anything that listens there: no reply does more than end in words, or becomes a number that is none."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import math
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import pytest
from places import THOROUGH

from meta_eval.ask import completions
from meta_eval.ask.completions import CompletionsConnection
from meta_eval.ask.request import Request
from meta_eval.ask.transport import CutError, Failed, GarbledError, Transport, parse_body
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.backends.base import BackendError

KEY = "s3cret-key-of-an-api"
MODELS = {"data": [{"id": "tiny", "owned_by": "vllm", "max_model_len": 8192}]}
COMPLETION = {
    "choices": [{"index": 0, "text": "B", "finish_reason": "stop", "token_ids": [5], "prompt_token_ids": [0, 0, 0],
                 "logprobs": {"tokens": ["token_id:0"], "token_logprobs": [-0.1],
                              "top_logprobs": [{"token_id:0": -0.1, "token_id:1": -3}]},
                 "prompt_logprobs": [None, {"0": {"logprob": -1.0, "rank": 1}}, {"0": {"logprob": -1.0, "rank": 2}}]}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}},
}  # fmt: skip
REQUEST = Request(
    id="meta_some/0/0", task="meta_some", doc=0, repeat=0, kind="generate", prompt="?", max_tokens=4, stop=(), settings=None, continuations=()
)  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.wfile.write(self.server.replies.get(self.path, b"HTTP/1.0 404 no\r\n\r\n{}"))  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = self.server.replies["/v1/completions"]  # type: ignore[attr-defined]
        try:
            self.wfile.write(reply)
            while reply.startswith(b"HTTP/1.0 200 endless"):
                self.wfile.write(b"x" * 2**20)
        except OSError:
            self.close_connection = True


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize(
    ("scheme", "host", "message"),
    [
        ("http", "no-such-host.invalid", "no machine has this name"),
        ("https", "127.0.0.1", "it speaks no TLS: write http:// where it speaks plain HTTP"),
    ],
)
def test_what_goes_wrong_in_a_connection_is_said_in_words_of_ours(
    server: ThreadingHTTPServer, scheme: str, host: str, message: str
) -> None:
    assert _fault_of(f"{scheme}://{host}:{server.server_port}/v1") == message


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (b"", "it closed the connection without an answer"),
        (b"SSH-2.0-nothing\r\n\r\n", "what it answers is no HTTP"),
        (b"HTTP/1.0 200 ok\r\nContent-Length: 99\r\n\r\n{", "it cut the connection in the middle of an answer"),
    ],
)
def test_what_is_no_answer_is_said_in_words_of_ours(server: ThreadingHTTPServer, models: bytes, message: str) -> None:
    server.replies = {"/v1/models": models}  # type: ignore[attr-defined]
    assert _fault_of(f"http://127.0.0.1:{server.server_port}/v1") == message


def _fault_of(url: str, kind: type[Exception] = CutError) -> str:
    async def ask() -> None:
        transport = Transport(url, 5, None)
        try:
            await transport.request("GET", "/models")
        finally:
            await transport.close()

    with pytest.raises(kind) as caught:
        asyncio.run(ask())
    return str(caught.value)


def reply(tree: Any, head: str = "") -> bytes:
    raw = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return f"HTTP/1.0 200 ok\r\nContent-Length: {len(raw)}\r\n{head}\r\n".encode() + raw


def met(server: ThreadingHTTPServer, replies: dict[str, bytes], key: str = KEY) -> CompletionsConnection:
    """A connection that has met the server, which answers so."""
    server.replies = {
        "/v1/models": reply(MODELS),
        "/version": reply({"version": "1"}),
        "/v1/completions": reply(COMPLETION),
        **replies,
    }  # type: ignore[attr-defined]
    settings = RunSettings(
        model_name="tiny", tasks=("meta_some",), include_path="w", runs_code=False, request_timeout=20
    )

    async def meet() -> CompletionsConnection:
        made = CompletionsConnection(f"http://127.0.0.1:{server.server_port}/v1", settings, "tiny", key)
        try:
            await made.meet()
            await made.can_label()
            await made.how_forced()
            return made
        finally:
            await made.close()

    return asyncio.run(meet())


def message_of(error: BaseException) -> str:
    text = str(error)
    assert KEY not in text
    assert len(text) < 2000
    return text


def test_a_good_one_is_met(server: ThreadingHTTPServer) -> None:
    made = met(server, {})
    assert (made.engine, made.can.token_ids, made.can.labels, made.can.forced) == (
        "vllm 1",
        True,
        True,
        "prompt_logprobs",
    )


ODD: list[Any] = [None, 5, "x", [], {}, [5], [None], [[]], {"data": 5}, {"data": {"id": "tiny"}}, {"data": [{"root": "tiny"}]},
    {"data": [{"id": ["tiny"]}]}, {"data": [{"id": "tiny", "max_model_len": "8"}]}, {"data": [{"id": "tiny", "max_model_len": -1}]},
    {"data": [{"id": "\x1b[31m" * 99}]}, {"choices": 5}, {"choices": [5]}, {"choices": []}, {"choices": [{}]}, {"error": [[]]},
    {"error": {"message": {"a": KEY}}}, b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"a": NaN}', b"9" * 6000, b'{"a": "\\ud800"}', b"\0" * 9,
]  # fmt: skip


REFUSALS = [b"302", b"400", b"401", b"404", b"429", b"500", b"999"]


@pytest.mark.parametrize("path", ["/v1/models", "/version", "/v1/completions"])
@pytest.mark.parametrize("status", [b"200", *REFUSALS])
def test_whatever_it_replies_it_is_met_or_refused_in_words(
    server: ThreadingHTTPServer, path: str, status: bytes
) -> None:
    # What comes with a refusal is read in one way, whichever it is: each comes with one of them, and in CI with all.
    all_of_it = THOROUGH or status == b"200"
    for tree in ODD if all_of_it else ODD[REFUSALS.index(status) :: len(REFUSALS)]:
        answer = reply(tree, "Location: file:///etc/passwd\r\nRetry-After: Mon, 01 Jan 0001 00:00:00\r\n")
        try:
            made = met(server, {path: answer.replace(b"200", status, 1)})
        except (CutError, Failed, GarbledError, BackendError) as error:
            message_of(error)
        else:
            assert len(made.engine) <= 200
            assert made.engine.isprintable()


CUT_HERE = "x " * 240 + KEY
MARKED = f"<p>not <b>{KEY[:9]}</b>{KEY[9:]}"
REPEATING: list[tuple[str, Any]] = [
    ("/v1/models", {"data": [{"id": KEY}]}),
    ("/v1/models", {"data": [{"id": "tiny", "owned_by": "x" * 190 + KEY}]}),
    ("/version", {"version": CUT_HERE}),
    ("/v1/completions", {"choices": [{"text": "", "finish_reason": KEY}]}),
    *((path, tree) for path in ("/v1/models", "/v1/completions") for tree in ({"error": CUT_HERE}, CUT_HERE.encode())),
    *(("/v1/completions", tree) for tree in (MARKED.encode(), {"error": {"message": MARKED}})),
]


@pytest.mark.parametrize("status", [b"200", *REFUSALS])
def test_a_key_that_a_server_repeats_is_nowhere(
    server: ThreadingHTTPServer, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    # As above: each refusal comes with some of them, and in CI with all.
    all_of_it = THOROUGH or status == b"200"
    for path, tree in REPEATING if all_of_it else REPEATING[REFUSALS.index(status) % 3 :: 3]:
        try:
            shown = met(server, {path: reply(tree, f"Server: {KEY}\r\n").replace(b"200", status, 1)}).engine
        except (CutError, Failed, GarbledError, BackendError) as error:
            shown = str(error)
        assert KEY[:8] not in shown + caplog.text, (path, tree)


# With what JSON, HTML, addresses and base64 write otherwise.
ODD_KEY = 's3cret/key+of"an&api=='


def test_a_key_that_a_server_repeats_in_another_way_of_writing_is_nowhere(server: ThreadingHTTPServer) -> None:
    encoded = [base64.b64encode(f"{user}{ODD_KEY}".encode()) for user in ("", "u:", "me:", "you:")]
    ways = [
        ODD_KEY, quote(ODD_KEY), quote(ODD_KEY, safe=""), quote(ODD_KEY, safe="").lower(),
        json.dumps(ODD_KEY), json.dumps(ODD_KEY).replace("/", r"\/"), json.dumps(json.dumps(ODD_KEY)), html.escape(ODD_KEY),
        ODD_KEY.encode().hex(), ODD_KEY.encode().hex().upper(), ODD_KEY.encode().hex(":"),
        *("".join(form.format(ord(letter)) for letter in ODD_KEY)
          for form in ("%{:02x}", "%{:02X}", "%25{:02X}", r"\x{:02x}", r"\u{:04x}", "&#{};", "&#x{:X};", "&amp;#{};")),
        ODD_KEY.upper(), ODD_KEY[1:], ODD_KEY[:-3], f"{ODD_KEY[:12]} {ODD_KEY[10:]}", ODD_KEY[4:].title() + ODD_KEY[:14],
        ODD_KEY.replace("e", "%65"), ODD_KEY.replace("c", "&#99;").replace("k", "%6B"),
        *(raw.decode() for raw in encoded), *(raw.decode().replace("+", "-").replace("/", "_") for raw in encoded),
    ]  # fmt: skip
    for way in ways:
        with pytest.raises((CutError, Failed, GarbledError, BackendError)) as caught:
            met(server, {"/v1/models": reply({"data": [{"id": f"model {way}"}]})}, ODD_KEY)
        assert "serves model " in str(caught.value)
        assert not [at for at in range(len(way) - 7) if way[at : at + 8] in str(caught.value)], (way, str(caught.value))


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0" * 100, b"HTTP/1.0 200 ok\r\n" + b"a: b\r\n" * 5, b"HTTP/1.0 200 ok\r\nX: " + b"y" * 2**20, b"HTTP/9.9 99999 ok\r\n\r\n",
     b"HTTP/1.0 200 ok\r\nContent-Length: -5\r\n\r\n", b"HTTP/1.0 200 ok\r\nContent-Length: 99\r\n\r\nx",
     b"HTTP/1.1 200 ok\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.0 200 ok\r\nContent-Encoding: gzip\r\n\r\nnot it",
     b"SSH-2.0-OpenSSH_9.6\r\n"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions"])
def test_what_is_no_reply_is_a_connection_that_failed(server: ThreadingHTTPServer, path: str, raw: bytes) -> None:
    with pytest.raises((CutError, Failed, GarbledError, BackendError)) as caught:
        met(server, {path: raw})
    message_of(caught.value)


def zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros, packed: a block that is repeated."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    first, *_, block = (packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + block * (mebibytes - 1)


def test_a_page_that_is_too_long_is_given_up(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta_eval.ask.transport._MOST_PAGE", 2**20)
    server.replies = {"/v1/models": reply(b"a" * (2**20 + 1))}  # type: ignore[attr-defined]
    assert _fault_of(f"http://127.0.0.1:{server.server_port}/v1", Failed) == "an answer of more than 1 MiB"


@pytest.mark.parametrize("how", ["endless", "unpacked"])
def test_a_reply_that_never_ends_is_given_up(
    server: ThreadingHTTPServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 128 if THOROUGH else 16  # MiB, which all come over the wire, or are unpacked
    if not THOROUGH:
        monkeypatch.setattr("meta_eval.ask.transport._MOST_BYTES", most * 2**20)
    raw = b"HTTP/1.0 200 endless\r\n\r\n"
    if how == "unpacked":
        raw = reply(zeros(most + 1), "Content-Encoding: gzip\r\n")
    with pytest.raises(Failed, match=f"an answer of more than {most} MiB"):
        met(server, {"/v1/completions": raw})


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


WRONG = [None, True, "x", "nan", math.nan, -math.inf, 10**400, -(2**63), -1, 0.5, [], [5], [[]], {}, {"0": 5}, "\ud800"]


@pytest.mark.parametrize("generated", [0, 1])
def test_an_echo_is_read_alike_with_and_without_a_generated_token(generated: int) -> None:
    """A model that ends at once generates none, and the server says so in its counts."""
    own = [None, -1.0, -2.0, -3.0, -9.0][: 4 + generated]
    tops = [None, {"a": -1.0}, {"b": -2.0}, {"c": -3.0}, {"d": -9.0}][: 4 + generated]
    answer = {
        "choices": [{"index": 0, "text": "x", "logprobs": {"token_logprobs": own, "top_logprobs": tops}}],
        "usage": {"prompt_tokens": 4, "completion_tokens": generated},
    }
    assert completions.read_forced(answer, [7, 8], "echo") == (-5.0, True)


@pytest.mark.parametrize("path", list(places(COMPLETION)), ids=lambda path: ".".join(map(str, path)))
def test_what_becomes_of_a_completion_are_numbers_that_can_be_added_up(path: tuple[Any, ...]) -> None:
    for wrong in WRONG:
        tree = node = json.loads(json.dumps(COMPLETION))
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = wrong
        answer = parse_body(json.dumps(tree).encode())
        content: list[Any] = []
        for read in (
            lambda answer=answer: completions.read_labels(answer, [0, 1]),
            lambda answer=answer: [completions.read_forced(answer, [0, 0], "prompt_logprobs")],
            lambda answer=answer: [completions.read_forced(answer, [0], "echo")],
        ):
            with suppress(GarbledError):
                content += read()
        assert all(type(number) is float and math.isfinite(number) for number, _ in content), (wrong, content)
        counts = list(completions.read_usage(answer).values())
        with suppress(GarbledError):
            text = completions.read_completion(REQUEST, answer, end=())
            counts += [text.completion_tokens or 0, *(text.token_ids or ())]
            assert isinstance(text.text, str)
            completions.explain_other_prompt(answer, [0, 0, 0])
        assert all(type(count) is int and 0 <= count < 2**53 for count in counts), (wrong, counts)


@pytest.mark.parametrize("body", [rb'{"a\udc00": ["\ud800 7"]}', b'{"a\xed\xb0\x80": ["\xed\xa0\x80 7"]}'])
def test_half_of_a_surrogate_pair_is_replaced_when_a_reply_is_read(server: ThreadingHTTPServer, body: bytes) -> None:
    assert parse_body(body) == {"a\ufffd": ["\ufffd 7"]}


@pytest.mark.parametrize("length", [4 * 2**20 + 1])
def test_a_text_that_no_line_of_the_journal_holds_is_no_answer(length: int) -> None:
    answer = {"choices": [{"text": "x" * length, "finish_reason": "stop"}]}
    with pytest.raises(GarbledError, match="a text of 4,194,305 characters"):
        completions.read_completion(REQUEST, answer, end=())
