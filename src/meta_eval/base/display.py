"""Text that people read: made safe to show, quoted, in the plural; and the colours of a terminal.

Names, paths and rows may come from anybody. `UserError`, the logger, the consoles and the views of a report make them
safe. Other code escapes nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from meta_eval.base.secrets import redact_secrets

# Characters that hide, reorder or forge text: controls except tab and newline, soft hyphens, zero-width and bidi marks,
# line separators, interlinear marks, tags, lone surrogates. The two joiners of Indic scripts are allowed.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile(r"[\t\n]")
# What a message repeats of a word: no name of a file is longer.
_LONG_WORD = re.compile(r"([^\s/,]{255})[^\s/,]+")

# Maximum length of a quoted value.
_MOST = 200


def name_path(path: Path | str) -> str:
    """A path for people, which says nothing of the machine where it lies below the working directory or the home."""
    here, home, real = str(Path.cwd()), os.environ.get("HOME") or os.sep, str(path)
    if f"{real}{os.sep}".startswith(f"{here}{os.sep}"):
        return os.path.relpath(real, here)
    return f"~{real.removeprefix(home)}" if len(home) > 1 and real.startswith(f"{home}{os.sep}") else real


def name_error(error: BaseException) -> str:
    """The kind of an exception and its message; that of others' code may fail to make one."""
    try:
        said = _name_paths(str(error).strip())
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _name_paths(text: str) -> str:
    """Text of others in which paths are as `name_path` names them."""
    for folder, short in ((str(Path.cwd()), ""), (os.environ.get("HOME", ""), "~/")):
        text = re.sub(rf"(?<![\w./~-]){re.escape(folder)}/", short, text) if len(folder) > 1 else text
    return text


def visible(text: str) -> str:
    """Replace each hidden character, as in ``⟨U+202E⟩``, and each credential. The result can be encoded."""
    return _HIDDEN.sub(_named, redact_secrets(text))


def one_line(text: str) -> str:
    """Like `visible`, but replaces tabs and line ends too. Quoted text cannot forge a second message."""
    return _BREAKS.sub(_named, visible(text))


def cut_words(text: str) -> str:
    """Like `one_line`, but cuts words that are longer than the name of a file can be."""
    return one_line(_LONG_WORD.sub(r"\1…", text))


def quoted(value: object) -> str:
    """A value for a message: its Python repr, shortened."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deep for Python's stack, or too many digits
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _named(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"


def plural(number: int, singular: str, many: str | None = None) -> str:
    """``1 doc``, ``2,000 docs``."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


# What to look at, and no error. Yellow is not readable on white.
CAUTION = "dark_orange3"
