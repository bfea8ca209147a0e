"""Chooses the first docs of a run: a few of every task and subtask, with their recorded answers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from meta_eval.ask.answers.recorded_answers import Recordings
from meta_eval.ask.pending_requests import PendingRequests
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import Recorded, find_kind
from meta_eval.harness.chat_completion import ToolCall

# Number of docs in all.
DOCS = 32


def choose_first_requests(pending: PendingRequests, recordings: Recordings) -> dict[str, tuple[Request, Recorded]]:
    """Choose the first requests among the pending ones, by id, with their recorded answers."""
    recorded, eligible = {}, {}
    for task, left in pending.left.items():
        if left:
            recorded[task], subtasks = recordings.read_task(task)
            docs = pending.docs_left(task)
            eligible[task] = [
                (name or "") if answer is not None and doc in docs else None
                for doc, (answer, name) in enumerate(zip(recorded[task], subtasks, strict=True))
            ]
    first = {}
    for request in pending.of_docs(spread_docs(eligible)):
        answer = recorded[request.task][request.doc]
        if answer is not None and request.repeat == 0 and find_kind(request.kind).is_comparable(request, answer):
            first[request.id] = request, _flatten_message(answer)
    return first


def join_calls(text: str, tool_calls: Iterable[ToolCall]) -> str:
    """The text of a message and its tool calls as one text, to compare messages word for word."""
    return "\n".join(filter(None, [text, *(f"{call.name} {call.arguments}" for call in tool_calls)]))


def _flatten_message(recorded: Recorded) -> Recorded:
    """A recorded answer as `join_calls` writes it, if it is a whole message (`ChatChoice.format_message`)."""
    if not recorded.text or not recorded.text.startswith('{"content": '):
        return recorded
    try:
        message = json.loads(recorded.text)
        return replace(
            recorded, text=join_calls(message["content"], (ToolCall(**call) for call in message["tool_calls"]))
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return recorded


def spread_docs(tasks: Mapping[str, Sequence[str | None]], docs: int = DOCS) -> dict[str, list[int]]:
    """Docs spread over tasks, and in each over its subtasks; the same for the same input.

    Args:
        tasks: By task, the subtask of each doc; None for a doc that cannot be compared.
        docs: Number of docs in all.
    """
    turns = {task: iter(_in_turns(subtasks)) for task, subtasks in tasks.items()}
    names = list(turns)
    if len(names) > docs:  # every k-th, because similar tasks are next to each other
        names = [names[number * len(names) // docs] for number in range(docs)]
    docs_by_task: dict[str, list[int]] = {}
    taken = 0
    while names and taken < docs:
        for name in list(names):
            doc = next(turns[name], None)
            if doc is None:
                names.remove(name)
            elif taken < docs:
                docs_by_task.setdefault(name, []).append(doc)
                taken += 1
    return {name: sorted(numbers) for name, numbers in docs_by_task.items()}


def _in_turns(subtasks: Sequence[str | None]) -> Iterator[int]:
    """Take a doc of each subtask in turn."""
    by_name: dict[str, list[int]] = {}
    for doc, name in enumerate(subtasks):
        if name is not None:
            by_name.setdefault(name, []).append(doc)
    for row in itertools.zip_longest(*by_name.values()):
        yield from (doc for doc in row if doc is not None)
