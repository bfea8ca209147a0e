"""How foreign text is shown: names, paths and rows come from data that anybody may have written.

The boundary is here. `UserError`, the logger and the consoles of the command line pass what they say through these
functions, and so do the views of a report; no caller escapes anything.
"""

from __future__ import annotations

import re

# Characters that hide, reorder or forge text: controls but tab and newline, soft hyphen, zero width and bidi marks,
# line separators, interlinear marks, tags, half surrogate pairs. The two joiners that Indic scripts need stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
_BREAKS = re.compile(r"[\t\n]")

# What a value may take of a message.
_MOST = 200


def visible(text: str) -> str:
    """The text with every hidden character as ``⟨U+202E⟩``: safe to encode, and nothing in it can fool the reader."""
    return _HIDDEN.sub(_named, text)


def one_line(text: str) -> str:
    """As `visible`, with tabs and line ends too: what a message quotes cannot forge a second message."""
    return _BREAKS.sub(_named, visible(text))


def quoted(value: object) -> str:
    """A value as a message quotes it: Python's way to write it, cut to what a reader needs."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested beyond Python's stack, or more digits than Python writes
        return f"<{type(value).__name__}>"
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _named(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match[0]):04X}⟩"
