"""Former names of verbs, and what was removed.

Former names are hidden, still work, and print the new name on stderr.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from meta_eval.cli import doctor, export, options, tasks
from meta_eval.cli.console import warn
from meta_eval.verb_options import EngineOptions


def _preflight(
    pack: Path | None = options.PACK, config: Path = options.CONFIG_OF_PACK, as_json: bool = options.AS_JSON
) -> None:
    doctor.print_checks(doctor.diagnose_pack(options.pack_folder(pack, config), as_json), as_json, failed=2)


@doctor.spread_engine
def _selfcheck(
    *,
    chosen: EngineOptions,
    show_command: bool = doctor.SHOW_COMMAND,
    as_json: bool = options.AS_JSON,
) -> None:
    if show_command:
        doctor.show_serve_command()
    else:
        doctor.print_checks(doctor.diagnose_engine(chosen, as_json), as_json, failed=1)


def _publish(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    dry_run: bool = export.DRY_RUN,
    output: Path = typer.Option(Path("published"), "--output", "-o", metavar="FOLDER", help="Where to write them."),
    as_json: bool = options.AS_JSON,
) -> None:
    export.export_recipe(options.pack_folder(pack, config), output, dry_run=dry_run, as_json=as_json)


def _says_new_name(old: str, new: str, command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def renamed(*arguments: object, **options: object) -> None:
        warn(f"`meta-eval {old}` is now `meta-eval {new}`")
        command(*arguments, **options)

    renamed.__doc__ = f"This is now `meta-eval {new}`."
    return renamed


_NEW_NAMES: dict[str, tuple[str, Callable[..., None]]] = {
    "preflight": ("doctor", _preflight),
    "validate": ("doctor", _preflight),
    "selfcheck": ("doctor --engine", _selfcheck),
    "publish": ("export --to recipe", _publish),
    "new-task": ("tasks new", tasks.new),
}
COMMANDS = {old: _says_new_name(old, new, command) for old, (new, command) in _NEW_NAMES.items()}

# What was removed, as an error of usage quotes it, and what to use.
_REMOVED = {
    "'board'": "`board` was removed. `compare A B C` shows several candidates beside a baseline, with their places.",
    "'lighteval'": "The export to lighteval was removed. `export` writes requests that any engine can answer; `grade` "
    "scores the answers.",
    "'every-eval-ever'": "The export to Every Eval Ever was removed. Its own converter reads what `run`, `grade` and "
    "lm_eval write.",
    "--write-stock": "This was removed. `export --force` writes the same requests; `fidelity --answers` reads the "
    "answers.",
}


def find_removed(words: str) -> Iterator[str]:
    """Say what to use in place of what was removed.

    Args:
        words: The message of an error of usage.
    """
    return (advice for name, advice in _REMOVED.items() if name in words)
