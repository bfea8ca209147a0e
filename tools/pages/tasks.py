"""docs/tasks.md: every task, by variant, with the numbers of every model."""

from __future__ import annotations

from pathlib import Path

from meta_eval.templates import discover
from meta_eval.templates.listing import TaskLine, list_tasks

ROOT = Path(__file__).resolve().parents[2]


def page() -> str:
    """The page."""
    folder = discover(ROOT / "meta_template")
    lines = list_tasks(folder, None)
    written = [
        "# Tasks",
        "",
        "<!-- Written by `python tools/write_pages.py` from meta_template/ and the catalog. -->",
        "",
        "`format` says what a template's idea of the rows rests on: *verified* (real rows were seen), *documented*, or",
        "*assumed*; prepare says so of an assumed one, and its numbers prove nothing until somebody has checked it.",
        "`grading` says what its verdicts were compared with; [fidelity.md](fidelity.md) has every comparison.",
        "A number in parentheses was published for other settings than the rows have.",
    ]
    for variant, title in (("instruct", "Instruct models"), ("pretrain", "Base models")):
        written += ["", f"## {title}", ""]
        written += [
            "| task | subset | Llama | shots | max tokens | metric | join | format | grading | published |",
            "|---" * 10 + "|",
        ]
        for line in lines:
            if variant not in line.variants:
                continue
            written.append(
                f"| {line.task} | {line.subset} | {', '.join(line.families)} | {line.shots or '-'} | "
                f"{line.max_gen_toks or '-'} | {line.metric} | {line.join or '-'} | {line.format} | {line.grading} | "
                f"{_numbers(line)} |"
            )
    written += ["", "## Groups", "", "| group | tasks |", "|---|---|"]
    for group in folder.groups:
        members = [line.task for line in lines if group in line.groups]
        written.append(f"| {group} | {', '.join(members)} |")
    return "\n".join(written) + "\n"


def _numbers(line: TaskLine) -> str:
    words: dict[str, list[str]] = {}
    for model, value, averaging, same in line.published:
        number = f"{value:g}{f' {averaging}' if averaging else ''}"
        words.setdefault(model.removeprefix("Llama-"), []).append(number if same else f"({number})")
    return "; ".join(f"{model} {', '.join(numbers)}" for model, numbers in words.items()) or "-"
