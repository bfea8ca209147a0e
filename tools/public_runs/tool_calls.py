"""Writes the tool calls of sm120-quant-bench as batch files: requests, results and golds.

The repository holds answers of five builds of Qwen3-8B, and of each question the offered tools and the expected call.
The requests are made as its run_toolcall.py makes them. Its schemas.py is parsed, never imported.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SEED, MAX_TOKENS = 3407, 512  # of run_toolcall.py


def write_batch(checkout: Path, build: str, folder: Path) -> None:
    """Write ``requests.jsonl``, ``output.jsonl`` and ``golds.jsonl`` of a build."""
    tools = {tool["function"]["name"]: tool for tool in read_tools(checkout / "harness" / "toolcall" / "schemas.py")}
    questions = read_lines(checkout / "harness" / "splits" / "toolcall.jsonl")
    answers = read_lines(checkout / "results" / "raw" / f"toolcall-{build}.jsonl")
    folder.mkdir(parents=True)
    write_lines(folder / "requests.jsonl", [make_request(question, tools) for question in questions])
    write_lines(folder / "output.jsonl", map(make_result, answers))
    write_lines(folder / "golds.jsonl", map(make_gold, questions))


def make_request(question: Mapping[str, Any], tools: Mapping[str, Any]) -> dict[str, Any]:
    """A request of a batch file."""
    body = {
        "model": "Qwen/Qwen3-8B", "messages": [{"role": "user", "content": question["user_message"]}],
        "tools": [tools[name] for name in question["tools_offered"]], "tool_choice": "auto", "temperature": 0,
        "seed": SEED, "max_tokens": MAX_TOKENS,
    }  # fmt: skip
    return {"custom_id": question["id"], "method": "POST", "url": "/v1/chat/completions", "body": body}


def make_result(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A result of a batch file."""
    response = {"status_code": 200, "request_id": answer["id"], "body": answer["response"]}
    return {"id": answer["id"], "custom_id": answer["id"], "response": response, "error": None}


def make_gold(question: Mapping[str, Any]) -> dict[str, Any]:
    """The gold of a question: the expected call, or None where no call is wanted."""
    expected = question["expected"]
    calls = [{"name": expected["tool"], "arguments": expected["args"]}] if expected and expected["tool"] else None
    return {"custom_id": question["id"], "gold": calls, "subtask": question["category"]}


def read_tools(path: Path) -> list[dict[str, Any]]:
    """The list ``TOOLS`` of a Python file, which must be a literal."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["TOOLS"]
    )
    tools: list[dict[str, Any]] = ast.literal_eval(value)
    return tools


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, objects: Iterable[Mapping[str, Any]]) -> None:
    """Write a file of JSON Lines."""
    path.write_text("".join(json.dumps(content) + "\n" for content in objects), encoding="utf-8")
