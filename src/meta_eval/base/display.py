"""Text that people read: made safe to show, quoted, in the plural; and the colours of a terminal.

Names, paths and rows may come from anybody. `UserError`, the logger, the consoles and the views of a report make them
safe. Other code escapes nothing.
"""

from __future__ import annotations

import re

# Characters that hide, reorder or forge text: controls except tab and newline, soft hyphens, zero-width and bidi marks,
# line separators, interlinear marks, tags, lone surrogates. The two joiners of Indic scripts are allowed.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile(r"[\t\n]")

# Maximum length of a quoted value.
_MOST = 200


def visible(text: str) -> str:
    """Replace each hidden character, as in ``⟨U+202E⟩``. The result can be encoded, and shows what it holds."""
    return _HIDDEN.sub(_named, text)


def one_line(text: str) -> str:
    """Like `visible`, but replaces tabs and line ends too. Quoted text cannot forge a second message."""
    return _BREAKS.sub(_named, visible(text))


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
