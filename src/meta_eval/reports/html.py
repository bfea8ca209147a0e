"""One HTML file that holds everything and asks the network for nothing.

What a model wrote is hostile. Three things keep it harmless, each enough by itself: texts travel compressed in base64
and are put into the page as text nodes only; what the template writes is escaped (strict autoescape); and the page's
Content-Security-Policy runs no script but the one whose hash it names, and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from meta_eval.boundary.hashing import hash_text
from meta_eval.judging.alarms import describe_alarm
from meta_eval.judging.judgement import Subtask, Task
from meta_eval.reports import text
from meta_eval.reports.fidelity_tables import fidelity_tables_by_key
from meta_eval.reports.model import Report, Sample
from meta_eval.reports.packed import FLAGS, pack
from meta_eval.reports.plot import plot
from meta_eval.reports.task_tables import PLACED, tables_by_key
from meta_eval.thresholds import FIDELITY_LEVEL_TEXT, LEVEL_TEXT
from meta_eval.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

# Differences of a subtask: a step of colour for every this many points, and the number of steps on either side.
_STEP = 0.025
_STEPS = 4

# The parts of the page's script, in order; the first is all that a page without samples needs.
_PARTS = (
    "base", "text", "difference", "data", "address", "filters", "table", "sample", "lengths", "export", "start",
)  # fmt: skip

_SHAPES = {
    "shown to hold": "holds", "shown below": "below", "not shown": "unknown",
    "SHIP": "holds", "DON'T": "below", "NOT SHOWN": "unknown",
}  # fmt: skip


def report_page(report: Report, samples: Iterable[Sample] = ()) -> Iterator[str]:
    """A report as one self-contained page, in pieces.

    Args:
        report: What it says.
        samples: The docs for its table, in the order of the table; read once, and never all in memory.
    """
    packed = pack(samples)
    try:
        yield from _page(report, packed.index, packed.samples, packed.chunks)
    finally:
        packed.close()


def _page(report: Report, index: str, samples: int, chunks: Callable[[], Iterable[str]]) -> Iterable[str]:
    from markupsafe import Markup

    style, script = asset("report.css"), _script(bool(samples))
    return (
        environment()
        .get_template("page.html.j2")
        .generate(
            report=report,
            comparing=report.kind == "compare",
            plot=plot(report),
            averages=text.averages(report.tasks, report.totals),
            tables=tables_by_key(report),
            placed=PLACED,
            compared_with=text.compared_with(report.tasks),
            settling=text.settling(report.decision.settling),
            outcomes=Counter(task.outcome for task in report.tasks),
            sides=report.sides,
            style=Markup(style),  # noqa: S704 (our own file)
            script=Markup(script),  # noqa: S704 (our own file)
            style_hash=digest(style),
            script_hash=digest(script),
            version=__version__,
            index=index,
            samples=samples,
            chunks=chunks(),
            flags=FLAGS,
        )
    )


def _script(samples: bool) -> str:
    """One script of many files that share a scope; the policy forbids modules that load one another."""
    parts = "\n".join(asset(f"page/{name}.js") for name in (_PARTS if samples else _PARTS[:1]))
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _link(**state: str) -> str:
    """The address of a filter in this page, as assets/page/address.js reads it."""
    return "#" + "&".join(f"{name}={quote_plus(value, safe='/,:', errors='replace')}" for name, value in state.items())


@cache
def environment() -> Environment:
    """Templates in which everything is escaped, with the filters that all pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    def finalize(value: Any) -> Any:
        return text.visible(value) if type(value) is str else value

    environment = Environment(
        loader=PackageLoader("meta_eval.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "percent": text.percent,
        "fidelity_tables": fidelity_tables_by_key,
        "points": text.points,
        "count": text.count,
        "plural": text.plural,
        "p_value": text.p_value,
        "weight": text.weight,
        "drop": text.drop,
        "in_words": describe_alarm,
        "why": text.why,
        "known_reasons": text.known_reasons,
        "cut": text.cut,
        "distance": text.distance,
        "shape": _SHAPES.__getitem__,
        "tiles": _tiles,
    }
    environment.tests["reasoned"] = lambda task: bool(text.why(task))
    environment.globals |= {"level": LEVEL_TEXT, "fidelity_level": FIDELITY_LEVEL_TEXT}
    environment.globals |= {"link": _link, "interval": text.interval, "drop_interval": text.drop_interval}
    return environment


def _tiles(task: Task) -> list[tuple[str, Subtask, float | None, str]]:
    """Name to show, subtask, its difference from the other's, and the class of its colour."""
    names = text.short_names([subtask.name for subtask in task.subtasks])
    tiles = []
    for subtask in task.subtasks:
        difference = None if subtask.other is None else subtask.value - subtask.other
        better = None if difference is None else -difference if task.lower_is_better else difference
        tiles.append((names[subtask.name], subtask, difference, _heat(subtask, better)))
    return tiles


def _heat(subtask: Subtask, difference: float | None) -> str:
    """A difference diverges from nought; where there is none to show, the score itself is the heat."""
    if difference is None:
        return f"heat s{min(9, int(10 * subtask.value))}"
    most = _STEPS if subtask.clear else 1
    step = max(-most, min(most, round(difference / _STEP)))
    return f"heat {'n' if step < 0 else 'p'}{abs(step)}"


def asset(name: str) -> str:
    """A file of assets/ as text."""
    return files("meta_eval.reports").joinpath("assets", name).read_text(encoding="utf-8")


def digest(content: str) -> str:
    """SHA-256 as a Content-Security-Policy names it."""
    return base64.b64encode(bytes.fromhex(hash_text(content))).decode("ascii")
