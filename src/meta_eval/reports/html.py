"""One HTML file that holds everything and asks the network for nothing.

What a model wrote is hostile. Three things keep it harmless, each enough by itself: texts travel compressed in base64
and are put into the page as text nodes only; what the template writes is escaped (strict autoescape); and the page's
Content-Security-Policy runs no script but the one whose hash it names, and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from meta_eval.base.display import plural
from meta_eval.base.hashing import hash_text
from meta_eval.base.secrets import redact_secrets
from meta_eval.base.version import __version__
from meta_eval.judge.alarms import describe_alarm
from meta_eval.reports import text
from meta_eval.reports.document import Document, Figure
from meta_eval.reports.report_data import tell_runs_apart
from meta_eval.reports.samples import FLAGS, pack_samples

if TYPE_CHECKING:
    from jinja2 import Environment

    from meta_eval.reports.document import RunProvenance

# The parts of the page's script, in order; the first is all that a page without samples needs.
_PARTS = (
    "base", "text", "difference", "data", "address", "filters", "table", "sample", "lengths", "export", "start",
)  # fmt: skip

_SHAPES = {
    "within margin": "holds", "worse": "below", "undecided": "unknown",
    "same": "holds", "no fault seen": "holds", "different": "below",
    "no alarm": "holds", "alarm": "below", "too few runs": "unknown",
    "SHIP": "holds", "DON'T SHIP": "below", "UNDECIDED": "unknown",
    "not compared": "unknown", None: "",
}  # fmt: skip


def render(document: Document) -> Iterator[str]:
    """Render a document as a self-contained page, in pieces. Samples are read once, and never all in memory."""
    packed = pack_samples(document.samples())
    try:
        yield from _page(document, packed.index, packed.samples, packed.chunks)
    finally:
        packed.close()


def _page(document: Document, index: str, samples: int, chunks: Callable[[], Iterable[str]]) -> Iterable[str]:
    from markupsafe import Markup

    style = _read_asset("report.css") + (_read_file(document.style) if document.style else "")
    script = _script(_PARTS if samples else _PARTS[:1] if document.script else ())
    return (
        _environment()
        .get_template("page.html.j2")
        .generate(
            document=document,
            folders=tell_runs_apart(document.runs) if _have_one_model(document.runs) else (),
            sections=document.sections_in("html"),
            comparing=bool(document.sides),
            style=Markup(style),  # noqa: S704 (our own file)
            script=Markup(script),  # noqa: S704 (our own file)
            style_hash=hash_for_policy(style),
            script_hash=hash_for_policy(script),
            version=__version__,
            index=index,
            samples=samples,
            chunks=chunks(),
            flags=FLAGS,
        )
    )


def _have_one_model(runs: Sequence[RunProvenance]) -> bool:
    """Whether two runs have one name, which does not tell them apart. More runs are labelled by their own names."""
    return len(runs) == 2 and runs[0].model == runs[1].model


def _script(names: Iterable[str]) -> str:
    """Join the files into a single script with a shared scope. The policy forbids modules that load each other."""
    parts = "\n".join(_read_asset(f"page/{name}.js") for name in names)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n' if parts else ""


def _link(**state: str) -> str:
    """The address of a filter in this page, as assets/page/address.js reads it."""
    return "#" + "&".join(
        f"{name}={quote_plus(redact_secrets(value), safe='/,:', errors='replace')}" for name, value in state.items()
    )


def _template(figure: Figure) -> str:
    """The name of a figure's template, as `_environment` loads it."""
    return f"{figure.package}:figures/{figure.name}.html.j2"


@cache
def _environment() -> Environment:
    """Templates in which everything is escaped."""
    from jinja2 import ChoiceLoader, Environment, FunctionLoader, PackageLoader, StrictUndefined

    def finalize(value: Any) -> Any:
        return text.visible(value) if type(value) is str else value

    def load_figure(name: str) -> str | None:
        """The template of a figure, ``PACKAGE:figures/NAME.html.j2``."""
        package, colon, path = name.partition(":")
        return _read_file(f"{package}:templates/{path}") if colon else None

    environment = Environment(
        loader=ChoiceLoader([FunctionLoader(load_figure), PackageLoader("meta_eval.reports")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "percent": text.format_percent,
        "points": text.format_points,
        "count": text.format_count,
        "plural": plural,
        "describe_alarm": describe_alarm,
    }
    environment.filters |= {"shape": lambda outcome: _SHAPES.get(outcome, "unknown"), "template": _template}
    environment.globals |= {"link": _link, "nats": text.format_nats}
    return environment


def _read_file(name: str) -> str:
    """A file of a package, ``PACKAGE:PATH``, as text."""
    package, _, path = name.partition(":")
    return files(package).joinpath(*path.split("/")).read_text(encoding="utf-8")


def _read_asset(name: str) -> str:
    """A file of assets/ as text."""
    return files("meta_eval.reports").joinpath("assets", name).read_text(encoding="utf-8")


def hash_for_policy(content: str) -> str:
    """SHA-256 as a Content-Security-Policy names it."""
    return base64.b64encode(bytes.fromhex(hash_text(content))).decode("ascii")
