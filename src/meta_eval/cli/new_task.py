"""``meta-eval new-task``: a working template folder to start from."""

from __future__ import annotations

from pathlib import Path

import typer

from meta_eval.cli.console import err

_TEMPLATES = Path("./meta_template")


def new_task(
    name: str = typer.Argument(..., help="The new task's name; its folder is named so too."),
    subset: str = typer.Option(..., "--subset", metavar="S", help="The details subset that it reads."),
    like: str = typer.Option("mmlu_pro", "--like", metavar="TASK", help="The task, or folder of tasks, to start from."),
    template_dir: Path = typer.Option(_TEMPLATES, "--template-dir", metavar="DIR", help="Where templates stand."),
) -> None:
    """Write a template folder that works as it is, and say what to edit."""
    from meta_eval.templates.new_task import write_template

    written = write_template(template_dir, name, subset=subset, like=like)
    for path in written.files:
        err.print(f"wrote {path}", soft_wrap=True)
    err.print("now edit, in this order:")
    for line in written.edits:
        err.print(f"  {line}", soft_wrap=True)
    err.print(f"then: meta-eval prepare --set tasks={name}")
