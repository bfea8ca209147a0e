"""A stand-in for a service that answers batch files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accelerator import lines_of

Line = dict[str, Any]


def completion(text: str | None, model: str = "their/model", finish: str = "stop", **message: Any) -> Line:
    """A ``chat.completion``."""
    return {
        "id": "c", "object": "chat.completion", "created": 1, "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }  # fmt: skip


def result(custom_id: str, body: Line | None, status: int = 200, error: Any = None) -> Line:
    """A line of a results file."""
    response = None if body is None else {"status_code": status, "request_id": "r", "body": body}
    return {"id": "b", "custom_id": custom_id, "response": response, "error": error}


def expired(custom_id: str) -> Line:
    """The line of a request that OpenAI did not come to."""
    return result(custom_id, None, error={"code": "batch_expired", "message": "The completion window is over."})


def refused(custom_id: str) -> Line:
    """The line of a request in OpenAI's file of errors."""
    body = {"error": {"message": "Unsupported parameter: 'seed'", "type": "invalid_request_error", "code": None}}
    return result(custom_id, body, status=400)


def failed_on_vllm(custom_id: str) -> Line:
    """The line of a request that ``vllm run-batch`` refused."""
    error = {"error": {"message": "too long", "type": "BadRequestError", "param": None, "code": 400}}
    return {
        **result(custom_id, {}, status=400, error=error),
        "response": {"status_code": 400, "request_id": "r", "body": None},
    }


def write(file: Path, lines: Sequence[Line]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def answer(requests: Path, results: Path, text: Callable[[Line], str]) -> Path:
    """Answer every request. ``text`` says what."""
    return write(results, [result(line["custom_id"], completion(text(line))) for line in lines_of(requests)])
