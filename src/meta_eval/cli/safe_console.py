"""A rich console for any text: what comes from files and models is never read as markup or as control characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any, cast

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from meta_eval.base.display import one_line, visible
from meta_eval.cli.streams import Stream

# Limits for the width of a table. COLUMNS may hold any number.
_NARROWEST, _WIDEST = 20, 500


class _Status(Status):
    """The line that shows the current step. rich would read markup in it."""

    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(Text(one_line(status)) if isinstance(status, str) else status, **settings)


class SafeConsole(Console):
    """A rich console without markup, emoji codes or control characters."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(file=cast(IO[str], stream), markup=False, emoji=False, highlight=False)

    @property
    def size(self) -> ConsoleDimensions:
        size = super().size
        return ConsoleDimensions(min(max(size.width, _NARROWEST) if size.width else 80, _WIDEST), size.height or 25)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(one_line(item) if isinstance(item, str) else item for item in objects), **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Make the texts of other objects (`Text`, a progress bar) safe too."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def status(self, status: RenderableType, **settings: Any) -> Status:
        return _Status(Text(one_line(status)) if isinstance(status, str) else status, console=self, **settings)
