"""CPU time of asking a server, per request, and of grading: meta-eval, a bare client, and stock lm_eval.

    python benchmarks/asking.py                      10,000 requests, and 20,000 answers of MMLU-Pro: half an hour
    python benchmarks/asking.py asking --repeats 5   or grading
    python benchmarks/asking.py --small              CI
    pip install "lm-eval[api]"                       for its local-completions

The server is a stand-in in a process of its own. It answers at once with 200 tokens. Only the client's CPU time is
counted, and of several runs the lowest, so other jobs on the machine hardly matter. Asking is `run` less a
`run --grade-only` after it, which loads and grades the same; of lm_eval it is `--model local-completions` less
`--model dummy`. The bare client sends the same prompts, parses the answers and appends them to a file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import verify_full_size
from measuring import measured, meta_eval

CONCURRENCY = 64
TASK = verify_full_size.SIZES["mmlu_pro"].task
ANSWER = {
    "id": "cmpl-0", "object": "text_completion", "created": 0, "model": "none",
    "choices": [{
        "index": 0, "text": f"{verify_full_size.prose(random.Random(1), 800)} The best answer is C.", "logprobs": None,
        "finish_reason": "stop", "stop_reason": None, "token_ids": list(range(1000, 1200)), "prompt_logprobs": None,
    }],
    "usage": {"prompt_tokens": 400, "total_tokens": 600, "completion_tokens": 200, "prompt_tokens_details": None},
}  # fmt: skip


class StandIn(asyncio.Protocol):
    """A connection of the stand-in server: it reads no more of a request than its length."""

    def connection_made(self, transport: Any) -> None:
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end].lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            if len(self._read) < end + 4 + length:
                return
            self._read = self._read[end + 4 + length :]
            self._transport.write(_reply(head.split(b" ", 2)[1]))


def _reply(path: bytes) -> bytes:
    models = {"data": [{"id": "none", "owned_by": "stand-in", "max_model_len": 131072}]}
    tree = {b"/v1/models": models, b"/v1/completions": ANSWER}.get(path)
    body = json.dumps(tree).encode()
    status = b"200 OK" if tree else b"404 Not Found"
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(StandIn, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def ask_bare(url: str, pack: Path, out: Path) -> None:
    """The least a client does: send each prompt, parse the answer, and append it to a file. Prints its CPU seconds."""
    import aiohttp

    (docs,) = pack.glob("*.parquet")
    prompts = iter(pq.read_table(docs, columns=["prompt"]).column(0).to_pylist())

    async def work(session: aiohttp.ClientSession, file: Any) -> None:
        for prompt in prompts:
            body = {"model": "none", "prompt": prompt, "max_tokens": 512, "temperature": 0.0}
            async with session.post(f"{url}/completions", json=body) as response:
                answer = await response.json()
            file.write(json.dumps(answer["choices"][0]) + "\n")

    started = time.process_time()
    with out.open("w", encoding="utf-8") as file:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(work(session, file) for _ in range(CONCURRENCY)))
    print(time.process_time() - started)


@contextlib.contextmanager
def standing_in() -> Iterator[str]:
    """The address of a stand-in server."""
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.terminate()
        server.wait()


def prepare(folder: Path, rows: int, prompt: int, url: str) -> Path:
    """A pack of MMLU-Pro with prompts of so many characters, and its configuration."""
    size = verify_full_size.SIZES["mmlu_pro"]
    make = functools.partial(verify_full_size.mmlu_pro, examples=prompt - 300)
    keys = verify_full_size.generate(folder, dataclasses.replace(size, rows=rows, make=make), 1.0)
    keys |= {"backend": "server", "base_url": url, "concurrency": CONCURRENCY}
    config = folder / "eval_config.yaml"
    config.write_text(json.dumps(keys), encoding="utf-8")
    meta_eval("prepare", "-c", str(config))
    return config


def lowest(repeats: int, *command: str, fresh: Path | None = None) -> float:
    """CPU seconds of a program with its children: the lowest of several runs, each without what the last one wrote."""
    seconds = []
    for _ in range(repeats):
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        seconds.append(measured(*command).cpu)
    return min(seconds)


def lowest_bare(repeats: int, url: str, folder: Path) -> float:
    command = (sys.executable, __file__, "--bare", url, str(folder / "pack"), str(folder / "bare.jsonl"))
    return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(repeats))


def stock(pack: Path, *model: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "lm_eval", "--include_path", str(pack), "--tasks", TASK, "--model", *model)


def asking(repeats: int, *, small: bool) -> None:
    rows = 100 if small else 10_000
    print(f"CPU milliseconds per request, {rows:,} requests")
    print(f"{'prompt, characters':<20}{'bare client':>12}{'run':>12}{'lm_eval':>12}")
    for prompt in (1_000, 9_000):
        with standing_in() as url, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            config, pack = prepare(folder, rows, prompt, url), folder / "pack"
            run = (sys.executable, "-m", "meta_eval", "run", "-c", str(config), "--no-canary", "--no-report")
            ours = lowest(repeats, *run, fresh=folder / "out") - lowest(repeats, *run, "--grade-only")
            cells = [lowest_bare(repeats, url, folder), ours]
            if importlib.util.find_spec("tenacity"):
                server = f"model=none,base_url={url}/completions,num_concurrent={CONCURRENCY},tokenizer_backend=None"
                all_of_it = lowest(repeats, *stock(pack, "local-completions", "--model_args", server))
                cells.append(all_of_it - lowest(repeats, *stock(pack, "dummy")))
            columns = "".join(f"{1000 * cpu / rows:>12.2f}" for cpu in cells)
            print(f"{prompt:<20,}{columns}", flush=True)


def grading(repeats: int, *, small: bool) -> None:
    rows = 200 if small else 20_000
    with standing_in() as url, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config, pack, out = prepare(folder, rows, 9_000, url), folder / "pack", folder / "graded"
        run = (sys.executable, "-m", "meta_eval", "run", "-c", str(config), "--no-canary", "--no-report")
        measured(*run)
        (answers,) = (folder / "out" / "answers").glob("*.jsonl")
        grade = (*run[:3], "grade", str(answers), "--pack", str(pack), "--output", str(out))
        print(f"CPU seconds, {rows:,} answers of MMLU-Pro")
        for name, command in (
            ("grade", grade),
            ("run --grade-only", (*run, "--grade-only")),
            ("lm_eval", (*stock(pack, "dummy"), "--log_samples", "--output_path", str(out))),
        ):
            print(f"{name:<20}{lowest(repeats, *command, fresh=out):>12.2f}", flush=True)


def main() -> None:
    works = {"asking": asking, "grading": grading}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*works, []], default=[], metavar="|".join(works))
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the lowest counts")
    parser.add_argument("--small", action="store_true", help="once, over few rows: CI")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
    elif arguments.bare:
        url, pack, out = arguments.bare
        asyncio.run(ask_bare(url, Path(pack), Path(out)))
    for name in [] if arguments.serve or arguments.bare else arguments.names or works:
        works[name](1 if arguments.small else arguments.repeats, small=arguments.small)


if __name__ == "__main__":
    main()
