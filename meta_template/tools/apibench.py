"""Gorilla's APIBench: find the API of the hub's database that an answer calls, and compare its domain with the gold's.

The rules are those of the benchmark's own evaluation (gorilla/eval/eval-scripts of ShishirPatil/gorilla):

- The code after ``api_call`` counts.
- For each entry of the database, the last call of its function counts.
- The entry matches if the call's text contains the text of each of its arguments, without quotes.
- The first matching entry decides. So the order of the database matters, and ``bert-base`` matches ``bert-base-cased``.

The original evaluation parses with tree-sitter, which continues after an error. This module only searches for names and
brackets, because the evaluation uses nothing else.
"""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .calls import MAX_LENGTH, STRING, TOKEN, read_object

_HIDDEN = re.compile(rf"{STRING}|#[^\n]*", re.DOTALL)  # strings and comments
_BRACKET = re.compile(r"[()\[\]{}]")
_PIECE = re.compile(rf"[\\\\\s]*(?:[^\W\d]\w*\s*[=(]\s*)*({STRING}|[^\W\d]\w*\.[^\W\d]\w*)")
_CALL = re.compile(r"\s*([^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*)\s*\(")


@dataclass(frozen=True)
class Api:
    """An entry of the database: its domain, the name of its function, and the texts that a call must contain."""

    domain: str
    name: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Hub:
    """The evaluation rules of a hub.

    - ``whole``: whether an answer without ``api_call`` counts as code. Else it is wrong.
    - ``shown``: a function from the text of an entry's argument to the text that a call must contain. None means that
      the argument does not count.
    """

    whole: bool
    shown: Callable[[str], str | None]


def _value(argument: str) -> str:
    return argument.partition("=")[2].strip() if "=" in argument else argument


HUBS = {
    "huggingface": Hub(True, _value),
    "torchhub": Hub(False, lambda text: _value(text) if "repo_or_dir" in text or "model" in text else None),
    "tensorflowhub": Hub(True, lambda text: _value(text) if re.search("model ?=", text) else text),
}


def read_database(path: Path, hub: str) -> tuple[Api | None, ...]:
    """Read a hub's APIs, in order. An entry is None if no answer can match it: it has no call, or no text to compare.

    Args:
        path: JSON lines with ``domain`` and ``api_call``.
        hub: A key of `HUBS`.

    Raises:
        OSError: The file is missing.
        ValueError: The file is not JSON lines.
    """
    return _database(path, hub, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _database(path: Path, hub: str, changed: int) -> tuple[Api | None, ...]:  # noqa: ARG001 (a file read once)
    with path.open(encoding="utf-8") as lines:
        return tuple(_api(json.loads(line), HUBS[hub]) for line in lines)


def _api(entry: dict, hub: Hub) -> Api | None:
    match = _CALL.match(entry["api_call"])
    if match is None:
        return None
    end = closing(entry["api_call"], match.end() - 1)
    shown = [hub.shown(text) for text in arguments(entry["api_call"][match.end() : end - 1])]
    texts = tuple(text.strip("'") for text in shown if text is not None)
    return Api(entry["domain"], match[1], texts) if texts else None


def arguments(text: str) -> list[str]:
    """Split a list of arguments at its commas, but not inside brackets and strings."""
    cuts, at = [-1], 0
    while (comma := text.find(",", at)) >= 0:
        opening = TOKEN.search(text, at, comma)
        at = closing(text, opening.start()) if opening and opening[0] in "([{" else opening.end() if opening else comma
        if opening is None:
            cuts.append(comma)
            at = comma + 1
    parts = [text[begin + 1 : end].strip() for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    return [part for part in parts if part]


def closing(text: str, opening: int) -> int:
    """Return the index after the bracket that closes the bracket at ``opening``.

    Quoted brackets are ignored at first. If no bracket then closes it, they count. If still none does, the end of the
    text is returned.
    """
    for tokens in (TOKEN, _BRACKET):
        depth = 0
        for token in tokens.finditer(text, opening):
            depth += token[0] in "([{"
            depth -= token[0] in ")]}"
            if depth == 0:
                return token.end()
    return len(text)


def code_of(answer: str, *, whole: bool) -> str | None:
    """Return the code of an answer: the text after the first ``api_call`` up to the last ``)`` before ``api_provider``.

    Without ``api_call``, the answer is returned if ``whole``, else None.
    """
    answer = answer[:MAX_LENGTH]
    _, marker, rest = answer.partition("api_call")
    if not marker:
        return answer if whole else None
    rest = rest.split("api_call")[0].split("api_provider")[0]
    # As in the evaluation, the code starts at the second character after the first colon. If it has no bracket, the
    # last character is dropped.
    return rest[max(rest.find(":"), 0) + 2 : rest.rfind(")") + 1 if ")" in rest else -1]


def has_code(code: str) -> bool:
    """Return whether a text may contain a call."""
    return bool(re.search(r"\w\s*\(", code) or _first_piece(code))


def read_gold(text: str) -> tuple[str | None, str | None] | None:
    """Return domain and call of a gold, each None if it is absent. Return None if the text is not a gold.

    A gold has one of these forms: an object with ``domain`` and ``api_call``, also inside ``api_data``; the form of an
    answer; only a domain, which is a line without ``(``; only a call.
    """
    tree = read_object(text)
    if isinstance(tree, dict) and isinstance(tree.get("api_data"), dict):
        tree = tree["api_data"]
    if isinstance(tree, dict):
        domain, code = tree.get("domain"), tree.get("api_call")
    elif named := re.search(r"domain\W+(\w.*?)[\s'\"]*(?:,?\s*<<<|[,\n][\s'\"]*api_call|\n|$)", text):
        domain, code = named[1], code_of(text, whole=False)
    elif "(" in text:
        domain, code = None, code_of(text, whole=True)
    else:
        domain, code = (
            (text.strip(), None) if 0 < len(text.strip()) <= 100 and "\n" not in text.strip() else (None, None)
        )
    domain, code = (value if isinstance(value, str) and value.strip() else None for value in (domain, code))
    return (domain, code) if domain or (code and _CALL.search(code)) else None


def meant(code: str, database: tuple[Api | None, ...]) -> Api | None:
    """Return the entry of the database that the code calls, or None.

    If the code does not call the function of an entry, the first piece of the code is compared with its arguments, as
    in the original evaluation. An answer that loads the right model in another way then still counts.
    """
    bare = _HIDDEN.sub(lambda match: "\0" * len(match[0]), code)
    called = functools.cache(lambda name: _called(code, bare, name))
    first = _first_piece(code)
    for api in database:
        if api is not None and all(part in (called(api.name) or first) for part in api.shown):
            return api
    return None


def _called(code: str, bare: str, name: str) -> str | None:
    """Return the text of the last call of a function that is not inside another call of it, or None."""
    call, at = None, 0
    for place in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*\(", bare):
        if place.start() >= at:
            at = closing(code, place.end() - 1)
            call = code[place.start() : at]
    return call


def _first_piece(code: str) -> str:
    """Return the first leaf of the code's syntax tree: a string or ``module.function``, or ""."""
    match = _PIECE.match(code)
    return match[1] if match else ""
