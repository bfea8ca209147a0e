"""The socket for views: a document holds what a command found, a view makes a file of it.

A package adds a view of its own by an entry point of the group ``meta_eval.views``, under the name that ``--view
NAME=FILE`` asks for; ``examples/junit_view.py`` is a small one.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from meta_eval.base.outputs import OutputError, replace_file
from meta_eval.reports.document import Document as Document  # noqa: PLC0414 (for views of other packages)


class View(ABC):
    """A way to show a document.

    Attributes:
        document_types: The documents that it shows; empty for all.
    """

    document_types: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def render(self, document: Document) -> str | bytes | Iterable[str]:
        """The file's content; pieces of a text where it may be too large for memory."""


def write_view(path: Path, view: View, document: Document) -> None:
    """Write a view of a document, whole or not at all.

    Raises:
        OutputError: The file cannot be written.
    """
    content = view.render(document)
    with replace_file(path) as out:
        if isinstance(content, bytes):
            assert isinstance(out, io.TextIOWrapper)  # noqa: S101 (what `replace_file` opens)
            out.buffer.write(content)
        else:
            out.writelines(_check_texts(view, content))


def _check_texts(view: View, content: Any) -> Iterator[str]:
    """The pieces of a text that a view made.

    Raises:
        OutputError: They are no texts that a file can hold.
    """
    where = f"view {type(view).__module__}.{type(view).__qualname__}"
    if not isinstance(content, Iterable):
        raise OutputError(f"render gave {type(content).__name__} and no text", where=where)
    for piece in [content] if isinstance(content, str) else content:
        if not isinstance(piece, str):
            raise OutputError(f"render gave {type(piece).__name__} in a text", where=where)
        try:
            piece.encode()
        except UnicodeEncodeError as error:
            raise OutputError(
                f"render gave a text with {piece[error.start]!r}, which no file can hold", where=where
            ) from None
        yield piece
