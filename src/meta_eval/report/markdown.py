"""The report as Markdown, to be put into a model card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from meta_eval.judging.model import Published, Score, Task
from meta_eval.report.model import Report, RunFacts
from meta_eval.report.text import (
    alarm_tasks,
    averages,
    compared_with,
    count,
    cut,
    distance,
    drop,
    drop_interval,
    interval,
    known_reasons,
    p_value,
    percent,
    points,
    visible,
    why,
)
from meta_eval.version import __version__

# What Markdown or the HTML in it would take for markup; an underscore inside a word is none.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_]))")


def render(report: Report) -> str:
    """The whole report; ends with a line break."""
    return "\n".join(_lines(report)).strip("\n") + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"## Evaluation: {_plain(report.title)}"
    yield ""
    outcome, _, rest = report.summary.partition(":")
    yield f"**{outcome}**: {_plain(rest)}"
    yield ""
    if report.alarms:
        yield "Look at this first:"
        yield ""
        for alarm in report.alarms:
            tasks = alarm_tasks(alarm)
            yield f"- {alarm.kind}{f': {_plain(tasks)}' if tasks else ''}. {_plain(alarm.hint)}"
        yield ""
    yield from _drops(report)
    yield from _scores(report)
    yield from _flips(report)
    yield from _subtasks(report)
    yield from _provenance(report)


def _drops(report: Report) -> Iterator[str]:
    rows = [_drop_cells(task, report) for task in report.tasks]
    decision = report.decision
    for name, outcome, mean, bounds in (
        ("mean, by precision", decision.outcome, decision.mean, decision.interval),
        ("mean, every task the same", "", decision.equal, decision.equal_interval),
    ):
        if mean and len(decision.tasks) > 1:
            numbers = f"**{drop(mean.value)}**", f"**{drop_interval(bounds)}**"
            rows.append(
                (f"**{name}**", f"**{outcome}**" if outcome else "", count(mean.docs), "", "", *numbers, "", "")
            )
    first, second, last = ("A", "B", "of A") if report.kind == "compare" else ("baseline", "run", "could see")
    yield from _table(("task", "outcome", "docs", first, second, "drop", "95 % interval", "p", last), "llrrrrrrr", rows)
    yield (
        f"Drops in points, positive for worse; at most {100 * decision.margin:g} is allowed. The interval decides; p "
        "is corrected for the number of tasks."
    )
    yield ""
    lines = [f"- {_names(tasks)}: compared with {_plain(words)}" for words, tasks in compared_with(report.tasks)]
    lines += [
        f"- {_code(task.name)}: {task.outcome}: {_plain(reason)}" for task in report.tasks if (reason := why(task))
    ]
    lines += [f"- {_code(task.name)}: {words}" for task in report.tasks if (words := cut(task))]
    yield from lines
    if lines:
        yield ""


def _drop_cells(task: Task, report: Report) -> tuple[str, ...]:
    one = task.decision
    runs = f", {task.runs} runs" if task.runs > 1 else ""
    head = f"{_code(task.name)}{runs}", task.outcome
    if one is None:
        return (*head, count(task.docs), *["-"] * 6)
    recovery = f"{percent(one.drop.recovery)} %" if one.drop.recovery is not None else "-"
    last = recovery if report.kind == "compare" else percent(one.could_see)
    scores = percent(one.drop.before), percent(one.drop.after)
    drops = drop(one.drop.value), drop_interval(one.interval), p_value(one.p_corrected)
    return (*head, count(one.drop.docs), *scores, *drops, last)


def _scores(report: Report) -> Iterator[str]:
    rows = [(*_task_cells(task, score), *_score_cells(score)) for task in report.tasks for score in task.scores]
    headings = ("task", "docs", "score", "95 % interval", "published", "difference")
    yield from _table(headings, "lrrrrr", rows) if rows else ()
    others = [f"- {_code(name)}: {_plain(numbers)}" for name, numbers in averages(report.tasks, report.totals)]
    if others:
        yield "lm-eval's own averages, of groups and of metrics that are no shares:"
        yield ""
        yield from others
        yield ""
    notes = [
        f"- {_code(task.name)} {percent(score.published.value)}: {_plain(_definition(score.published, score))}"
        for task in report.tasks
        for score in task.scores
        if score.published
    ]
    if notes:
        yield "Scores in percent, differences in points. The published numbers:"
        yield ""
        yield from notes
        yield ""
    reasons = known_reasons(report.tasks)
    if reasons:
        yield "Known reasons for a difference:"
        yield ""
        for reason, names in reasons:
            yield f"- {', '.join(map(_code, names))}: {_plain(reason)}"
        yield ""


def _task_cells(task: Task, score: Score) -> tuple[str, str]:
    averaging = f", {score.averaging}" if len(task.scores) > 1 else ""
    return f"{_code(task.name)}{_plain(averaging)}", count(score.n)


def _score_cells(score: Score) -> tuple[str, str, str, str]:
    published = percent(score.published.value) if score.published and score.difference is not None else "-"
    return f"**{percent(score.value)}**", interval(score.interval), published, points(score.difference)


def _definition(published: Published, score: Score) -> str:
    shots = f"{published.shots}-shot" if published.shots is not None else None
    what = ", ".join(filter(None, (published.benchmark, shots, published.averaging, published.metric)))
    note = f" {published.note}" if published.note else ""
    apart = "" if score.difference is not None else f" Not comparable: {score.reason}."
    beside = distance(score)
    return f"{what}; {published.source}.{note}{apart}{f' The baseline scores {beside}.' if beside else ''}"


def _flips(report: Report) -> Iterator[str]:
    pairs = [(task, task.flips) for task in report.tasks if task.flips and task.flips.compared]
    if not pairs:
        return
    first, second = pairs[0][1].first, pairs[0][1].second
    yield f"Doc by doc, {first} beside {second}:"
    yield ""
    yield from _table(
        ("task", "docs", "agree", f"only {first} right", f"only {second} right"),
        "lrrrr",
        (
            (
                _code(task.name),
                count(flips.compared),
                f"{percent(flips.agreed / flips.compared)} %",
                count(flips.first_only),
                count(flips.second_only),
            )
            for task, flips in pairs
        ),
    )


def _subtasks(report: Report) -> Iterator[str]:
    for task in report.tasks:
        if task.subtasks:
            yield f"<details><summary>Subtasks of {_plain(task.name)}</summary>"
            yield ""
            other = "A" if report.kind == "compare" else "Meta's"
            yield from _table(
                ("subtask", "docs", "B" if report.kind == "compare" else "ours", other, "difference"),
                "lrrrr",
                (
                    (
                        _plain(subtask.name),
                        count(subtask.n),
                        percent(subtask.value),
                        percent(subtask.other),
                        points(None if subtask.other is None else subtask.value - subtask.other),
                    )
                    for subtask in task.subtasks
                ),
            )
            yield "</details>"
            yield ""


def _provenance(report: Report) -> Iterator[str]:
    yield "<details><summary>Where these numbers come from</summary>"
    yield ""
    for run in report.runs:
        yield from _run(run)
    yield from (f"- {_plain(note)}" for note in report.notes)
    yield f"- meta-eval {__version__}"
    yield ""
    yield "</details>"


def _run(run: RunFacts) -> Iterator[str]:
    yield f"{_plain(run.label)}: {_plain(run.model)}"
    yield ""
    yield from (f"- {_plain(name)}: {_plain(value)}" for name, value in run.facts)
    yield ""


def _table(headings: tuple[str, ...], alignment: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """``alignment``: one letter a column, l or r."""
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join('---' if letter == 'l' else '--:' for letter in alignment)}|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _plain(text: str) -> str:
    """Text that stays text, on one line."""
    return _MARKUP.sub(r"\\\1", visible(" ".join(text.split())))


def _names(tasks: Iterable[str]) -> str:
    return ", ".join(map(_code, tasks))


def _code(name: str) -> str:
    """A name in a code span, unless a character of it would end the span or the cell."""
    return f"`{name}`" if re.fullmatch(r"[\w.:/-]+", name) else _plain(name)
