"""Runs the commands that pages show as a reader does, and compares the output with the page.

A page runs in an empty folder, with its ``console`` blocks in order. A line that begins with ``$`` is a command, which
a backslash continues on the next line. The lines below it are its output. ``…`` is any text of a line. Alone on a line
it is any lines. ``<!-- tests: NAME -->`` in a page names the setup of `page_setups` for the folder. With ``new_folder`` before the
name, what follows on the page runs in another folder.

As a script it writes the real output into the pages: ``python tests/helpers/console_blocks.py [PAGE …]``.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import page_setups
from command import cli
from places import REPOSITORY

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS_SHELL = re.compile(r"[|><&;*$]|^(?!meta-eval\b)")
ANY = "…"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a page.

    Attributes:
        text: The command, in one line.
        shown: The lines of its output on the page.
        span: First and last character of these lines in the page.
    """

    text: str
    shown: tuple[str, ...]
    span: tuple[int, int]


def pages() -> list[Path]:
    """Return every page with a command that can run."""
    pages = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    return [page for page in pages if _BLOCK.search(page.read_text(encoding="utf-8"))]


def commands(text: str) -> Iterator[Command]:
    """Return the commands of a page in order."""
    for block in _BLOCK.finditer(text):
        place = block.start(1)
        lines = block[1].splitlines(keepends=True)
        starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            last = start
            while lines[last].endswith("\\\n"):
                last += 1
            words = " ".join(line.rstrip("\\\n").strip() for line in lines[start : last + 1])
            before, shown = "".join(lines[: last + 1]), lines[last + 1 : end]
            begin = place + len(before)
            span = (begin, begin + len("".join(shown)))
            yield Command(words.removeprefix("$ "), tuple(line.rstrip("\n") for line in shown), span)


def is_slow(text: str) -> bool:
    """Whether a page runs only in CI's thorough mode."""
    return "<!-- tests: slow" in text


def is_without_engine(text: str) -> bool:
    """Whether a page needs llama.cpp but META_EVAL_LLAMACPP does not name its folder."""
    return "<!-- tests: llamacpp" in text and "META_EVAL_LLAMACPP" not in os.environ


def run(text: str) -> Iterator[tuple[Command, list[str]]]:
    """Run the commands of a page in new folders, and return each with its printed lines."""
    starts = [0, *(match.start() for match in re.finditer("<!-- tests: new_folder", text)), len(text)]
    for start, end in itertools.pairwise(starts):
        yield from _run_part(text[start:end], [command for command in commands(text) if start < command.span[0] <= end])


def _run_part(text: str, some: list[Command]) -> Iterator[tuple[Command, list[str]]]:
    """Run commands in a new folder with the setups that this part of a page names."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stands_for: dict[str, str] = {}
        for names in re.findall(r"<!-- tests: ([\w, ]+)", text):
            for name in set(names.replace(",", " ").split()) - {"slow", "new_folder"}:
                stands_for |= stack.enter_context(page_setups.SETUPS[name](folder)) or {}
        code = 0
        for command in some:
            words = command.text.partition("  #")[0].strip()
            if words == "echo $?":
                yield command, [str(code)]
                continue
            code, out = _run(_replaced(words, stands_for), folder)
            back = {f"{folder}/": "", **{value: key for key, value in stands_for.items()}}
            lines = [line.rstrip() for line in _replaced(out, back).splitlines()]
            yield command, lines


def _run(words: str, folder: Path) -> tuple[int, str]:
    # A new home, because nltk's data on a machine changes the output of prepare.
    environment = {"NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "80", "HOME": str(folder), "NLTK_DATA": ""}
    if not _NEEDS_SHELL.search(words):
        done = cli(*_split(words), cwd=folder, merged=True, **environment)
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, env={**os.environ, **environment, "PATH": path},
        )  # fmt: skip
    return done.returncode, done.stdout


def _split(words: str) -> list[str]:
    import shlex

    return shlex.split(words)[1:]


def _replaced(text: str, pairs: dict[str, str]) -> str:
    for old, new in pairs.items():
        text = text.replace(old, new)
    return text


def matches(shown: Iterable[str], printed: Iterable[str], *, figures: bool = True) -> bool:
    """Whether a page shows the printed lines. Without ``figures`` all numbers match.

    Another kind of CPU flips a few answers of a real model."""
    if not figures:
        shown, printed = map(_without_figures, shown), map(_without_figures, printed)
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == ANY else ".*".join(map(re.escape, line.rstrip().split(ANY))) + r"\n"
        for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _without_figures(line: str) -> str:
    return " ".join(re.sub(r"\u2212?\d+(?:[.,]\d+)*", "0", line).split())


def renewed(shown: tuple[str, ...], printed: list[str]) -> list[str]:
    """Return the part of new output that is most like the lines that a page shows.

    What stands first on the page begins the output, and what stands last ends it."""
    if not any(line.strip() == ANY for line in shown):
        return printed
    if matches(shown, printed):
        return list(shown)
    made: list[str] = []
    groups = list(_groups(shown))
    for number, (alike, group) in enumerate(groups):
        if not alike:
            made.append(group[0])
            continue
        start, end = _most_like(group, printed)
        made += printed[0 if number == 0 else start : len(printed) if number == len(groups) - 1 else end]
    return made


def _groups(shown: tuple[str, ...]) -> Iterator[tuple[bool, list[str]]]:
    for is_any, lines in itertools.groupby(shown, key=lambda line: line.strip() == ANY):
        group = list(lines)
        yield from ((False, [line]) for line in group) if is_any else [(True, group)]


def _most_like(group: list[str], printed: list[str]) -> tuple[int, int]:
    """Where the lines most like a group begin and end. A heading of a table may have gained or lost upper lines."""
    upper = len(list(itertools.takewhile(_is_upper, group)))
    sizes = {min(size, len(printed)) for size in (len(group), len(group) - upper) if size}

    def likeness(place: tuple[int, int]) -> float:
        return difflib.SequenceMatcher(None, "\n".join(group), "\n".join(printed[slice(*place)])).ratio()

    places = ((at, at + size) for size in sorted(sizes, reverse=True) for at in range(len(printed) - size + 1))
    start, end = max(places, key=likeness)
    while start < end and group[0].strip() and not printed[start].strip():
        start += 1
    if printed[start:end] and printed[start] != group[0]:
        while start and _is_upper(printed[start - 1]):
            start -= 1
    return start, end


def _is_upper(line: str) -> bool:
    """Whether a line may be an upper line of a heading: its first column is empty."""
    return line.startswith(" ") and bool(line.strip())


def rewrite(page: Path) -> None:
    """Write the current output of its commands into a page."""
    text = page.read_text(encoding="utf-8")
    if is_without_engine(text):
        sys.stderr.write(f"{page.name} is left as it is: it needs llama.cpp, and META_EVAL_LLAMACPP is not set\n")
        return
    parts, end = [], 0
    for command, printed in run(text):
        new = "".join(f"{line}\n" for line in renewed(command.shown, printed))
        parts += [text[end : command.span[0]], new]
        end = command.span[1]
    page.write_text("".join([*parts, text[end:]]), encoding="utf-8")


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or pages():
        rewrite(page)
