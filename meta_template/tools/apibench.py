"""Gorilla's APIBench: which API of the hub's database does an answer call, and is its domain the gold's?

As the benchmark's own evaluation has it (gorilla/eval/eval-scripts of ShishirPatil/gorilla): of an answer the code
after ``api_call`` counts; of this code the last call that has the name of a database entry; and the entry is meant when
the text of each of its arguments stands in the text of the call, quotes apart. The first entry of the database decides,
so its order counts, and so does that ``bert-base`` stands in ``bert-base-cased``. That evaluation parses with
tree-sitter, which reads on after an error; we look for names and brackets, which is all that it makes use of.
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
    """An entry of the database: what it is for, the name of its function, and the texts that a call of it shows."""

    domain: str
    name: str
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Hub:
    """How the evaluation of one hub differs.

    ``whole``: an answer that names no ``api_call`` is code as a whole; without, it is wrong. ``shown``: the text that
    an argument of a database entry must show in a call, by its text; None for one that does not count.
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
    """A hub's APIs, in order; None for an entry that is no call or shows nothing, which no answer can mean.

    Args:
        path: JSON lines with ``domain`` and ``api_call``.
        hub: One of `HUBS`.

    Raises:
        OSError, ValueError: The file is missing, or is another.
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
    """What stands between the commas of a list of arguments, brackets and strings left whole."""
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
    """The place after the bracket that closes the one at ``opening``.

    Quoted brackets do not count, unless none closes it so; where none closes it at all, the end of the text.
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
    """The code of an answer: what stands after its first ``api_call``, up to the last bracket before ``api_provider``.

    None where there is no ``api_call``; with ``whole`` it is then the answer.
    """
    answer = answer[:MAX_LENGTH]
    _, marker, rest = answer.partition("api_call")
    if not marker:
        return answer if whole else None
    rest = rest.split("api_call")[0].split("api_provider")[0]
    # The two characters from the first colon on go, and without a bracket the last one: so the evaluation cuts.
    return rest[max(rest.find(":"), 0) + 2 : rest.rfind(")") + 1 if ")" in rest else -1]


def has_code(code: str) -> bool:
    """Whether there is anything in a text that could be a call."""
    return bool(re.search(r"\w\s*\(", code) or _first_piece(code))


def read_gold(text: str) -> tuple[str | None, str | None] | None:
    """Domain and call of a gold, each None where it does not say it; None where it is no gold.

    A gold is an object with ``domain`` and ``api_call``, also inside ``api_data``; the form that an answer has; a
    domain alone, which is a line without brackets; or a call alone.
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
    """The entry of the database that a code calls; None where it calls nothing that is there.

    Of an entry whose function the code does not call, the code's first piece is compared with the arguments: so the
    evaluation goes on where it finds no call, and an answer that loads the right model in another way still counts.
    """
    bare = _HIDDEN.sub(lambda match: "\0" * len(match[0]), code)
    called = functools.cache(lambda name: _called(code, bare, name))
    first = _first_piece(code)
    for api in database:
        if api is not None and all(part in (called(api.name) or first) for part in api.shown):
            return api
    return None


def _called(code: str, bare: str, name: str) -> str | None:
    """The text of the last call of a function that stands in no other call of it; None where there is none."""
    call, at = None, 0
    for place in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*\(", bare):
        if place.start() >= at:
            at = closing(code, place.end() - 1)
            call = code[place.start() : at]
    return call


def _first_piece(code: str) -> str:
    """What a syntax tree of code holds first and deepest: the first string, or the first ``module.function``."""
    match = _PIECE.match(code)
    return match[1] if match else ""
