"""Stock lm-eval's client of chat endpoints, and an endpoint that answers as a task may accept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from chat_server import Body, ChatServer, completion

ANSWERS = ("It is\n#### {}", "so 2 more is {}", "I am not sure.")


def answer_question(body: Body) -> Body:
    """An answer that depends on the last question alone."""
    question = body["messages"][-1]["content"].rpartition("Question:")[2]
    number = sum(int(word) for word in question.replace(".", " ").split() if word.isdigit())
    return completion(ANSWERS[hashlib.sha256(question.encode()).digest()[0] % len(ANSWERS)].format(number))


def take_bodies(server: ChatServer, *others: str) -> list[str]:
    """What was asked since the last call, each as sorted JSON without some fields, in sorted order."""
    bodies, server.bodies = server.bodies, []
    kept = [{name: value for name, value in body.items() if name not in others} for body in bodies]
    return sorted(json.dumps(body, sort_keys=True) for body in kept)


def open_stock_client(server: ChatServer) -> Any:
    """lm-eval's ``local-chat-completions``, as a stock command makes it."""
    from lm_eval.models.openai_completions import LocalChatCompletion

    return LocalChatCompletion(model="org/chat", base_url=f"{server.url}/chat/completions", max_retries=1)
