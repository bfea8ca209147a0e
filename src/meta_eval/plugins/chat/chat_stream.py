"""Puts the chunks of a streamed chat completion together, while they come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from meta_eval.ask.transport import GarbledError, Json
from meta_eval.base.inputs import format_json, parse_loose_json
from meta_eval.harness.chat_completion import LONGEST
from meta_eval.harness.sample_parser import FILTERED

# Fields of a delta that are texts, in pieces.
_TEXTS = ("content", "reasoning", "reasoning_content", "refusal")

# The most answers of a stream, and tool calls of a message.
_MOST = 1024

# The most characters of a function's name.
_NAME = 256

# A mark that may stand before the first line, and the fields of an event.
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data:", b"event:", b":", b"id:", b"retry:")


class StreamMerger:
    """Makes a ``chat.completion`` of a stream of ``chat.completion.chunk`` events, in time that grows with its length.

    A text that is longer than any answer ends it at once.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of a line whose end has not come
        self._data: list[bytes] = []  # the data lines of an event whose end has not come
        self._body: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._is_over = False

    @staticmethod
    def is_stream(head: bytes) -> bool:
        """Whether a body is a stream of events, whatever was asked for."""
        return head[:200].removeprefix(_BOM).lstrip().startswith(_FIELDS)

    def feed(self, part: bytes) -> None:
        """Read on.

        Raises:
            GarbledError: It holds an error, or is no such stream. An error's words may be of any length.
        """
        if b"\n" not in part:
            self._line.append(part)
            return
        lines = b"".join((*self._line, part)).split(b"\n")
        self._line = [lines.pop()]
        for line in lines:
            for inner in line.removesuffix(b"\r").split(b"\r"):
                self._take_line(inner)

    def finish(self) -> Json:
        """The completion.

        Raises:
            GarbledError: As of `feed`; or the stream ended early.
        """
        for line in [*b"".join(self._line).splitlines(), b""]:
            self._take_line(line)
        ended = self._choices and all(choice.finish_reason is not None for choice in self._choices.values())
        if not self._is_over and not ended:
            raise GarbledError("a stream that ended early")
        if not all(choice.has_delta or choice.finish_reason == FILTERED for choice in self._choices.values()):
            raise GarbledError("a stream with a choice that holds neither a delta nor a message")
        return {**self._body, "choices": [self._choices[index].as_json(index) for index in sorted(self._choices)]}

    def _take_line(self, line: bytes) -> None:
        """Lines of one event belong together; an empty line ends it. An event without data is none."""
        if self._is_over:
            return
        line = line.removeprefix(_BOM)
        if line.startswith(b"data:"):
            self._data.append(line[5:].strip())
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            if data:
                self._take_event(data)

    def _take_event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._is_over = True
            return
        try:
            chunk = parse_loose_json(data)  # the other half of a surrogate pair may come with the next event
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            raise GarbledError("a stream with an event that is not a JSON object")
        if chunk.get("error"):
            error = chunk["error"]
            reason = error.get("message") if isinstance(error, dict) else error
            raise GarbledError(f"a stream that holds an error: {reason}")
        if isinstance(chunk.get("model"), str):
            self._body["model"] = chunk["model"]
        if isinstance(chunk.get("usage"), dict):
            self._body["usage"] = chunk["usage"]
        parts = chunk.get("choices")
        if parts is None:
            return
        for place, part in enumerate(parts if isinstance(parts, list) else [None]):
            self._take_choice(place, part)

    def _take_choice(self, place: int, part: Any) -> None:
        index = part.get("index") if isinstance(part, dict) else None
        index = place if index is None else index
        if not isinstance(part, dict) or not isinstance(index, int):
            raise GarbledError("a stream with a choice that is not an object")
        if not 0 <= index < _MOST:
            raise GarbledError("a stream with a wrong index of a choice")
        choice = self._choices.setdefault(index, _Choice())
        if part.get("finish_reason") is not None:
            choice.finish_reason = part["finish_reason"]
        delta = part.get("delta")
        if delta is None and not choice.has_delta:
            delta = part.get("message")  # the whole answer, as of a server that does not stream
        if delta is None:
            return
        if not isinstance(delta, dict):
            raise GarbledError("a stream with a delta that is not an object")
        choice.has_delta = True
        for name in _TEXTS:
            if isinstance(text := delta.get(name), str):
                choice.texts.setdefault(name, _Text()).add(text)
            elif text is not None:
                raise GarbledError(f"a stream with a {name} that is not text")
        if (pieces := delta.get("tool_calls")) is not None:
            choice.add_calls(pieces)
        if (function := delta.get("function_call")) is not None:  # the former name of a single call
            choice.add_calls([{"index": 0, "function": function}])


class _Text:
    """A text that comes in pieces."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > LONGEST:
            raise GarbledError(f"a stream that holds a text of more than {LONGEST:,} characters")
        if piece:
            self._pieces.append(piece)

    def add_name(self, piece: str) -> None:
        """Add a piece of a name. The whole name again is no piece: some servers repeat it with every delta."""
        if len(piece) > _NAME or self._length != len(piece) or str(self) != piece:
            self.add(piece)

    def __str__(self) -> str:
        return "".join(self._pieces)


@dataclass(slots=True)
class _Call:
    """A tool call of a choice; without a name until one comes."""

    name: _Text = field(default_factory=_Text)
    arguments: _Text = field(default_factory=_Text)

    def as_json(self) -> dict[str, Any]:
        return {"function": {"name": str(self.name) or None, "arguments": str(self.arguments)}}


@dataclass(slots=True)
class _Choice:
    """An answer of the stream."""

    texts: dict[str, _Text] = field(default_factory=dict)
    calls: dict[int, _Call] | None = None
    last: int = 0
    finish_reason: Any = None
    has_delta: bool = False

    def add_calls(self, pieces: Any) -> None:
        """Add pieces of tool calls. A piece without an index belongs to the last call, unless it names a function."""
        calls = self.calls = {} if self.calls is None else self.calls
        for piece in pieces if isinstance(pieces, list) else [None]:
            function = piece.get("function", piece.get("custom")) if isinstance(piece, dict) else None
            if not isinstance(piece, dict) or not isinstance(function, dict):
                raise GarbledError("a stream with a tool call that is not an object")
            name, arguments = function.get("name"), function.get("arguments", function.get("input"))
            place = piece.get("index")
            if not isinstance(place, int):
                place = len(calls) if name or not calls else self.last
            if not 0 <= place < _MOST:
                raise GarbledError("a stream with a wrong index of a tool call")
            self.last = max(self.last, place)
            call = calls.setdefault(place, _Call())
            if isinstance(name, str):
                call.name.add_name(name)
            if arguments is not None:
                call.arguments.add(arguments if isinstance(arguments, str) else format_json(arguments))

    def as_json(self, index: int) -> dict[str, Any]:
        message: dict[str, Any] = {name: str(text) for name, text in self.texts.items()}
        if self.calls is not None:
            message["tool_calls"] = [self.calls[place].as_json() for place in sorted(self.calls)]
        return {"index": index, "message": message, "finish_reason": self.finish_reason}
