"""A verb: the tasks of a pack, with the number of docs of each.

Name it in your package's pyproject.toml, and `meta-eval docs PACK` runs it:

    [project.entry-points."meta_eval.verbs"]
    docs = "docs_verb:DOCS"

A verb that imports much keeps its `Verb` in a module of its own: `meta-eval --help` imports that module.
"""

import json
from pathlib import Path

import typer

from meta_eval.sockets import Verb, print_result, read_manifest

DOCS = Verb("docs", "Count the docs of each task of a pack.", "docs_verb:docs")


def docs(
    pack: Path = typer.Argument(..., metavar="PACK", help="The pack."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> None:
    """Count the docs of each task of a pack.

    Example: meta-eval docs work_dir
    """
    counts = {name: task.docs for name, task in read_manifest(pack).tasks.items()}
    print_result(json.dumps(counts) if as_json else "\n".join(f"{name}: {count:,}" for name, count in counts.items()))
