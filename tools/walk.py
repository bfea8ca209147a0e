"""Show the way of a doc through the code: the files that a reader visits, and how often they turn back.

A command of meta-eval runs in this process. The tool records each function of the package that has the doc in its
arguments or its result, at its first occurrence. It recognises a doc by its question or the question's SHA-256.
Consecutive functions in a file are a visit. A turn back is a visit to an earlier file.

    python tools/walk.py --question 'Find the sum …' prepare --set evals_dataset=sample --set tasks=meta_math_hard
    python tools/walk.py --checkout ../other --question … report eval_results --pack work_dir --html report.html

The walk is printed on stderr, after the command's output. Calls from C code and the inside of data frames and tables
are not seen. Only the first items of a long list are searched, so choose a doc near the beginning.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

# Deep enough for a row in a list in an attribute, and long enough for the columns of a row.
_DEPTH, _ITEMS = 4, 40


def holds(value: Any, texts: Sequence[str], depth: int = _DEPTH) -> bool:
    """Whether a value, or a part of it, contains any of some texts."""
    if isinstance(value, str):
        return any(text in value for text in texts)
    if depth == 0:
        return False
    if isinstance(value, Mapping):
        parts = list(itertools.islice(value.values(), _ITEMS))
    elif isinstance(value, list | tuple):
        parts = list(value[:_ITEMS])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    else:
        return False
    return any(holds(part, texts, depth - 1) for part in parts)


class Walk:
    """Watches calls, as a profile function of `sys.setprofile`.

    Attributes:
        functions: File and name of each function that had the doc, in order.
    """

    def __init__(self, package: Path, question: str, skip: Sequence[str] = ()) -> None:
        self.functions: list[tuple[str, str]] = []
        self._package = f"{package}/"
        self._skip = tuple(f"{package}/{name}" for name in skip)
        self._texts = (question, hashlib.sha256(question.encode()).hexdigest())
        self._known: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(self._package) and not code.co_filename.startswith(self._skip)
        if not ours or code.co_name.startswith("<") or code in self._known or event not in ("call", "return"):
            return
        if event == "call":
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            values: list[Any] = [frame.f_locals.get(name) for name in names]
        else:
            values = [result]
        if any(holds(value, self._texts) for value in values):
            self._known.add(code)
            self.functions.append((code.co_filename.removeprefix(self._package), code.co_name))

    @property
    def visits(self) -> list[tuple[str, list[str]]]:
        """The visited files in order, each with its functions."""
        grouped = itertools.groupby(self.functions, key=lambda path: path[0])
        return [(file, [name for _, name in functions]) for file, functions in grouped]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parent.parent, help="whose code is walked")
    parser.add_argument("--question", required=True, help="the doc's question, whole")
    parser.add_argument(
        "--skip", action="append", default=[], metavar="PREFIX", help="files to leave out: source/sample"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of meta-eval, with its arguments")
    arguments = parser.parse_args()
    source = arguments.checkout.resolve() / "src"
    sys.path.insert(0, str(source))
    sys.argv = ["meta-eval", *arguments.command]
    from meta_eval.cli import main as command

    walk = Walk(source / "meta_eval", arguments.question, arguments.skip)
    sys.setprofile(walk)
    try:
        command()
    except SystemExit as end:
        code = end.code
    finally:
        sys.setprofile(None)
    visited: set[str] = set()
    for file, names in walk.visits:
        print(f"{'<' if file in visited else ' '} {file}: {', '.join(names)}", file=sys.stderr)
        visited.add(file)
    turns = len(walk.visits) - len(visited)
    print(f"{len(visited)} files, {turns} turns back, {len(walk.functions)} functions", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
