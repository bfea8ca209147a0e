"""``meta-eval tasks``: list the tasks, show a task, or write a template for a new task."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from meta_eval.base.inputs import expand_home, read_text
from meta_eval.cli import options
from meta_eval.cli.console import make_result_console
from meta_eval.pack.pack_options import TEMPLATES
from meta_eval.pack.records.format_registry import find_format
from meta_eval.plugins.meta.tasks_options import ListOptions, NewTaskOptions
from meta_eval.sockets import ConfigError, Place, err, locating, plural, print_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meta_eval.pack.templates.template_folder import TemplateFolder
    from meta_eval.plugins.meta.listing import TaskLine
    from meta_eval.plugins.meta.source.dataset import EvalsDataset

app = typer.Typer(
    help="List the tasks (the default), show a task, or start a new one.\n\nExample: meta-eval tasks show meta_ifeval",
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_WIDE = 160  # terminal columns that hold every column
_AS_JSON = typer.Option(False, "--json", help="Print one JSON array on stdout.")
_listing = options.spread_options()


@app.callback()
@_listing
def tasks(context: typer.Context, *, chosen: ListOptions, as_json: bool = _AS_JSON) -> None:
    """List the tasks with subset, groups, shots, tokens, metric, join, published score and format status."""
    if context.invoked_subcommand is None:
        _list(chosen, as_json=as_json)


@app.command("list", short_help="List the tasks, their source and their grading.")
@_listing
def list_all(*, chosen: ListOptions, as_json: bool = _AS_JSON) -> None:
    """List the tasks with subset, groups, shots, tokens, metric, join, published score and format status.

    Example: meta-eval tasks list --evals-dataset sample
    """
    _list(chosen, as_json=as_json)


def _list(chosen: ListOptions, *, as_json: bool) -> None:
    from meta_eval.plugins.meta.listing import list_tasks
    from meta_eval.plugins.meta.task_selection import list_groups

    folder, datasets = _open(chosen)
    lines = list_tasks(folder, datasets)
    if as_json:
        print_result([line.to_json() for line in lines])
    else:
        out = make_result_console()
        out.print(_table(lines, with_numbers=datasets is not None, wide=out.width >= _WIDE))
        groups = list_groups(folder, datasets)
        of_groups = f", and {plural(len(groups), 'group')}: {', '.join(groups)}" if groups else ""
        out.print(Text(f"{plural(len(lines), 'task')}{of_groups}"))


@app.command("show", short_help="Print the template of a task and its first doc.")
@_listing
def show(name: str = typer.Argument(..., metavar="NAME", help="A task from the list."), *, chosen: ListOptions) -> None:
    """Print the template of a task and its first doc: the prompt with its special tokens, the gold and the settings.

    Example: meta-eval tasks show meta_ifeval
    """
    from meta_eval.plugins.meta.record_format import make_first_doc
    from meta_eval.plugins.meta.task_selection import select_meta_tasks

    folder, datasets = _open(chosen.updated(evals_dataset=chosen.evals_dataset or "sample"), with_rows=True)
    with locating("NAME"):
        (selection, *_), _groups = select_meta_tasks(folder, [name], datasets or (), allow_code=True)
    template = selection.template
    doc = make_first_doc(folder, selection)
    out = make_result_console()
    out.print(Text(read_text(folder.root / template.file)), soft_wrap=True)
    out.rule(f"first doc of {selection.dataset.dataset_id}, subset {template.spec.subset}")
    out.print(_visible(str(doc["prompt"])), soft_wrap=True)
    for column, value in doc.items():
        if column != "prompt":
            out.print(Text.assemble((f"{column}: ", "bold"), str(value)), soft_wrap=True)
    settings = template.settings.get("generation_kwargs", "the likelihood of each continuation")
    out.print(Text.assemble(("answered by: ", "bold"), str(settings)), soft_wrap=True)


@app.command("new", short_help="Write a template to start from, and say what to edit.")
@options.spread_options(template_dir="Folder of templates.")
def new(
    name: str = typer.Argument(..., metavar="NAME", help="Name of the new task and of its folder."),
    *,
    chosen: NewTaskOptions,
) -> None:
    """Write a template folder that works at once, and say what to edit.

    Example: meta-eval tasks new my_task --subset my_subset
    """
    from meta_eval.plugins.meta.new_task import check_subset, write_template

    check_subset(chosen.subset, None if chosen.evals_dataset is None else _open_dataset(chosen.evals_dataset))
    written = write_template(name, chosen)
    for path in written.files:
        err.print(f"wrote {path}", soft_wrap=True)
    err.print("now edit, in this order:")
    for line in written.edits:
        err.print(f"  {line}", soft_wrap=True)
    folder = "" if chosen.template_dir == TEMPLATES else f" --set {shlex.quote(f'template_dir={chosen.template_dir}')}"
    err.print(f"then: meta-eval prepare --set tasks={name}{folder}", soft_wrap=True)


def _open(chosen: ListOptions, *, with_rows: bool = False) -> tuple[TemplateFolder, Sequence[EvalsDataset] | None]:
    """Open the templates and the evals dataset, as `_open_dataset` does."""
    from meta_eval.plugins.meta.templates import open_templates

    folder = open_templates(chosen.template_dir)
    return folder, None if chosen.evals_dataset is None else _open_dataset(chosen.evals_dataset, with_rows=with_rows)


def _open_dataset(name: str, *, with_rows: bool = False) -> Sequence[EvalsDataset]:
    """Open an evals dataset. Without rows, a published dataset comes from the catalog."""
    from meta_eval.plugins.meta.source.lookup import find_listed_dataset, open_evals_dataset

    listed = find_listed_dataset(name)
    if listed is not None and not with_rows:
        return (listed,)
    with err.status("opening the evals dataset"):
        if (path := expand_home(name, where="--evals-dataset")).exists():
            _refuse_run(Place(name, path))
        return open_evals_dataset(name)


def _refuse_run(place: Place) -> None:
    """Refuse a recorded run: its tasks have no templates.

    Raises:
        ConfigError: Another format reads the place.
    """
    record_format = find_format(place)
    if record_format is not None and record_format.holds_runs:
        prepare = ["meta-eval", "prepare", "--set", f"evals_dataset={place.name}", "--set", "tasks=recorded"]
        raise ConfigError(
            f"{place.name} is a recorded run ({record_format.reads}), and this verb lists the tasks of Meta's evals "
            "datasets",
            where="--evals-dataset",
            hint=f"`{shlex.join(prepare)}` takes the tasks of the run, and lists them",
        )


def _visible(prompt: str) -> Text:
    """Highlight special tokens."""
    from meta_eval.harness.families import list_families

    text = Text(prompt)
    text.highlight_words([token for family in list_families() for token in family.tokens], "reverse")
    return text


def _table(lines: Sequence[TaskLine], *, with_numbers: bool, wide: bool) -> Table:
    """Lay out the list. ``wide`` shows all columns except groups; ``--json`` has everything."""
    columns: dict[str, Callable[[TaskLine], str]] = {
        "task": lambda line: line.task,
        "subset": lambda line: line.subset,
        "Llama": _families,
        "shots": lambda line: line.shots or "-",
        "tokens": lambda line: str(line.max_gen_toks or "-"),
        "join": lambda line: line.join or "-",
        "metric": lambda line: line.metric,
        "groups": lambda line: " ".join(line.groups),
        "format": lambda line: line.row_format,
        "grading": lambda line: line.grading,
        "published": _numbers,
    }
    hidden = (
        {"groups"}
        if wide
        else {"subset", "join", "metric", "groups", "grading", "Llama" if with_numbers else "published"}
    )
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    shown = [heading for heading in columns if heading not in hidden]
    for heading in shown:
        justify = "right" if heading in ("shots", "tokens") else "left"
        table.add_column(heading, no_wrap=heading != "published", overflow="fold", justify=justify)  # type: ignore[arg-type]
    for line in lines:
        table.add_row(*(columns[heading](line) for heading in shown))
    return table


def _families(line: TaskLine) -> str:
    """Shorten families: ``3.1/2/3`` means 3.1, 3.2 and 3.3."""
    return "/".join(family if number == 0 else family.rpartition(".")[2] for number, family in enumerate(line.families))


def _numbers(line: TaskLine) -> str:
    """Format the published scores of a model. Scores from other settings are in parentheses."""
    numbers = [
        f"{value:g}{f' {averaging}' if averaging else ''}" if same else f"({value:g})"
        for _, value, averaging, same in line.published
    ]
    return ", ".join(numbers) or "-"
