"""docs/fidelity.md, from the comparisons in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from meta_eval import catalog
from meta_eval.catalog import fidelity
from meta_eval.catalog.fidelity import Comparison
from meta_eval.templates.folder import discover
from meta_eval.templates.spec import Template

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = {"instruct": "Instruct models", "pretrain": "Base models"}

HEAD = """# Fidelity: graded as Meta and the benchmarks themselves grade

<!-- Written by `python tools/write_pages.py` from src/meta_eval/catalog/fidelity/. -->

One row a details subset: what the prompts, golds and columns that its task expects (*format*) and the verdicts that
the task gives (*grading*) were compared with, on how many answers, and with what agreement. Every number was measured
by the command beside it under [All comparisons](#all-comparisons), on data that you can fetch yourself; none of those
rows is in this repository.

A format is **verified** where Meta's own rows went through the task, **documented** where quoted rows or documents say
how they look, **assumed** where nobody could compare it with anything: `meta-eval verify` on your copy of the rows is
then the only proof. Grading is **verified** where real answers of real models get the verdicts that Meta recorded, or
those of the benchmark's own scorer, on at least {proven:.0%} of them; **compared** where a reference implementation or
answers made up for the purpose stand in. `meta-eval tasks` shows both.

What was left out and why stands in the notes.
"""


def page() -> str:
    lines = [HEAD.format(proven=fidelity.PROVEN)]
    tasks = tuple(discover(ROOT / "meta_template").tasks.values())
    for variant, title in VARIANTS.items():
        lines += [
            f"## {title}",
            "",
            "| subset | tasks | format | its source | grading | compared with |",
            "|---" * 6 + "|",
        ]
        lines += [_row(variant, subset, tasks) for subset in _subsets(variant)]
        lines.append("")
    lines += ["## All comparisons", ""]
    for check in fidelity.checks():
        lines += [*_details(check), ""]
    return "\n".join(lines).rstrip() + "\n"


def _subsets(variant: str) -> list[str]:
    families = ("3.1", "3.2", "3.3")
    return sorted({subset for family in families for subset in catalog.subsets(family, variant)})


def _row(variant: str, subset: str, templates: Iterable[Template]) -> str:
    tasks = sorted(t.name for t in templates if t.spec.subset == subset and variant in t.spec.variants)
    found = [check for check in fidelity.checks() if subset in check.subsets.get(variant, ())]  # type: ignore[call-overload]
    cells = {
        aspect: "<br>".join(_short(check) for check in found if check.aspect == aspect) or "-"
        for aspect in ("format", "grading")
    }
    words = " / ".join(sorted({fidelity.format_status(task) for task in tasks}))
    graded = " / ".join(sorted({fidelity.grading_in_words(task) for task in tasks}))
    return f"| {subset} | {', '.join(tasks)} | {words} | {cells['format']} | {graded} | {cells['grading']} |"


def _short(check: Comparison) -> str:
    what = f"[{check.compared_with}](#{check.id})"
    if check.answers is None or check.agreement is None:
        return what
    kind = "real answers" if check.real else "cases made up"
    scores = "" if check.ours is None or check.theirs is None else f"; score {check.ours:g}, theirs {check.theirs:g}"
    return f"{what}: {check.agreement * 100:.2f} % of {check.answers:,} {kind}{scores}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _details(check: Comparison) -> list[str]:
    lines = [f'### <a id="{check.id}"></a>{check.id}', ""]
    lines.append(
        f"{check.aspect}, compared with {check.compared_with}: {_cell(check.reference)}. Read in {_cell(check.source)}."
    )
    if check.answers is not None and check.agreed is not None:
        metric = f" by `{check.metric}`" if check.metric else ""
        kind = "answers of real models" if check.real else "cases made up for the purpose"
        scores = (
            ""
            if check.ours is None or check.theirs is None
            else f" Our score is {check.ours:g}, theirs {check.theirs:g}."
        )
        lines.append(f"{check.agreed:,} of {check.answers:,} {kind} have the same verdict{metric}.{scores}")
    if check.note:
        lines += ["", _cell(check.note)]
    if check.rest:
        lines += ["", *(f"- {part.count:,}: {_cell(part.why)}" for part in check.rest)]
    if check.command:
        lines += ["", "```", check.command, "```"]
    return lines
