"""``meta-eval prepare``: make a pack and print the command that runs it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import typer

from meta_eval.base.errors import ConfigError
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import PLANNED_FLIPS
from meta_eval.cli import options
from meta_eval.cli.console import err, show_progress, warn
from meta_eval.cli.streams import print_result
from meta_eval.cli.verb import find_next_command
from meta_eval.pack.backends.base import BackendError
from meta_eval.pack.pack_options import PrepareOptions, make_verify_command

if TYPE_CHECKING:
    from rich.table import Table

    from meta_eval.judge.flips import PlannedFlips
    from meta_eval.judge.gate import Gate
    from meta_eval.judge.plan import PackPlan
    from meta_eval.pack.manifest import Manifest, ReferenceScoreEntry


@options.spread_options()
def prepare(
    config: Path = options.CONFIG,
    *,
    chosen: PrepareOptions,
    plan: bool = typer.Option(
        False, "--plan", help="Print what each task, and the whole, will be able to show: chances, margins, repeats."
    ),
    flips: str | None = typer.Option(
        None,
        "--flips",
        metavar="PERCENT",
        help="Plan with this share of docs that an identical copy flips; or with what runs of one model in a folder "
        f"of results show. Default: {100 * PLANNED_FLIPS:g}, assumed.",
    ),
    sampled_flips: str | None = typer.Option(
        None,
        "--sampled-flips",
        metavar="PERCENT",
        help="Plan sampled answers too, with this share of docs that flip between two single answers; or as runs in a "
        "folder of results show.",
    ),
    gate: Path | None = typer.Option(
        None, "--gate", metavar="FILE", help="Plan by the rules of a gate.yaml. Default: the pack's margin."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout instead of the command."),
) -> None:
    """Make a pack of lm-eval tasks from the configuration, and print the lm_eval command that runs it.

    Example: meta-eval prepare --set tasks=meta_ifeval
    """
    from meta_eval import api

    plan_gate, share = _read_rules(gate), _read_flips(flips, "--flips")
    sampled, plan = _read_flips(sampled_flips, "--sampled-flips"), plan or sampled_flips is not None
    with show_progress("starting"):
        prepared = api.prepare(config, options=chosen)
    from meta_eval.doctor.environment_checks import describe_install
    from meta_eval.doctor.pack_checks import check_written_pack
    from meta_eval.pack.manifest import MANIFEST

    manifest = prepared.manifest
    for check in check_written_pack(Path(prepared.work_dir)):
        if check.status == "failed":
            warn(str(check))
    err.print(_table(manifest))
    _print_units(manifest)
    _print_trust(manifest)
    print_left_out(manifest)
    models = (manifest.run_settings.model_name, *prepared.other_models)
    refused = _warn_of_refusals(manifest, Path(prepared.work_dir), models)
    planned = None
    if plan or as_json or not _is_invented(manifest):
        planned = _plan(Path(prepared.work_dir), plan_gate, share, sampled, decision=plan)
        _print_plan(planned, manifest, decision=plan)
    commands = [shlex.join(_make_command(manifest, model)) for model in models] if manifest.command else []
    serve = manifest.backend.serve_command(manifest.run_settings)
    if as_json:
        from meta_eval.reports.plan_table import plan_json

        print_result(
            {
                "command": shlex.join(manifest.command),
                "argv": manifest.command,
                **({"commands": dict(zip(models, commands, strict=True))} if commands and models[1:] else {}),
                **({"install": describe_install(Path(prepared.work_dir), manifest)} if manifest.command else {}),
                **({"serve": shlex.join(serve)} if serve else {}),
                "work_dir": prepared.work_dir,
                "tasks": {name: {"rows": entry.docs} for name, entry in manifest.tasks.items()},
                "left_out": manifest.left_out,
                "plan": planned and plan_json(planned),
                "manifest": str(Path(prepared.work_dir) / MANIFEST),
            }
        )
    else:
        if serve:
            err.print("start the server with:")
            err.print(shlex.join(serve), soft_wrap=True, highlight=False, markup=False)
        wrote = f"wrote {prepared.work_dir}"
        if any(entry.has_recorded_answers for entry in manifest.tasks.values()):
            graders = make_verify_command(prepared.work_dir, of_sample=_is_invented(manifest))
            err.print(f"{wrote}; check its graders with: {graders}", soft_wrap=True, markup=False)
            wrote = ""
        if manifest.command:
            _print_commands(manifest, prepared.work_dir, dict(zip(models, commands, strict=True)), wrote)
        else:
            err.print(
                f"{wrote}; {manifest.no_command}. "
                f"next: {_name_next(manifest, prepared.work_dir, refused)}".removeprefix("; "),
                soft_wrap=True,
                markup=False,
            )


def _print_commands(manifest: Manifest, work_dir: str, commands: Mapping[str, str], wrote: str) -> None:
    """Print the command of each model, what it needs, and what follows."""
    from meta_eval.doctor.environment_checks import describe_install
    from meta_eval.pack.config import name_results_folder

    several = len(commands) > 1
    which = "these to run it, a command for each model" if several else "this to run it"
    err.print(f"{wrote}; paste {which}:".removeprefix("; "), markup=False)
    print_result("\n".join(commands.values()))
    needed = describe_install(Path(work_dir), manifest)
    err.print(f"needs there: {needed}", soft_wrap=True, highlight=False, markup=False)
    output = manifest.run_settings.output_path
    for model in commands:
        results = str(Path(output) / name_results_folder(model)) if several else output
        after = ("meta-eval", "report", results, "--pack", work_dir)
        err.print(f"then: {shlex.join(after)}", soft_wrap=True)


def _make_command(manifest: Manifest, model: str) -> Sequence[str]:
    """The command of one of the models; the manifest has that of the first."""
    run = manifest.run_settings
    return (
        manifest.command
        if model == run.model_name
        else manifest.backend.command(run.model_copy(update={"model_name": model}))
    )


def _warn_of_refusals(manifest: Manifest, pack: Path, models: Sequence[str]) -> dict[str, str]:
    """Say what `run` would refuse; returns the tasks that it would leave out, each with the reason."""
    for why in filter(None, (_explain_bos(manifest, model) for model in models)):
        warn(f"`meta-eval run` refuses this pack, and the printed command would ask without a BOS: {why}")
    refused = _find_refused(manifest, pack)
    for why in dict.fromkeys(refused.values()):
        names = join_names([name for name, reason in refused.items() if reason == why])
        warn(f"{names}: `meta-eval run` will leave it out with backend {manifest.backend.name}: {why}")
    return refused


def _explain_bos(manifest: Manifest, model: str) -> str | None:
    """Why `run` refuses the tokenizer of a model, as far as a folder on this machine tells; None if it does not."""
    from meta_eval.ask.model_tokens import tokens_of
    from meta_eval.pack.prompt_lengths import find_tokenizer_file

    backend, run = manifest.backend, manifest.run_settings
    named = run.tokenizer_of(model)
    is_text = backend.renders_messages or (backend.reads_text and run.tokenizer is None)
    if is_text or not Path(named).is_dir() or find_tokenizer_file(named) is None:
        return None
    try:
        tokens_of(named, needed=False, needs_bos=manifest.needs_bos, add_bos=run.add_bos_token)
    except BackendError as error:
        return str(error)
    return None


def _find_refused(manifest: Manifest, pack: Path) -> dict[str, str]:
    """The tasks that the pack's backend cannot ask as messages, each with the reason; found by its first prompt."""
    from meta_eval.doctor.prompt_checks import read_prompts

    backend, refused = manifest.backend, {}
    for name, entry in manifest.tasks.items():
        if not backend.renders_messages or entry.asked_as != "text" or entry.output_type != "generate_until":
            continue
        prompt = next(iter(read_prompts(pack, entry)), None)
        if prompt is not None and (why := backend.cannot_ask(prompt, manifest.run_settings)):
            refused[name] = f"the prompt {why}"
    return refused


def _name_next(manifest: Manifest, pack: str, refused: Mapping[str, str]) -> str:
    """The next command: `run`, or what a verb says of a pack that its backend can score but not answer."""
    if len(refused) == len(manifest.tasks):
        return "name another backend, or other tasks: this one can ask none of them"
    kinds, chats = manifest.backend.kinds, all(entry.asked_as == "chat" for entry in manifest.tasks.values())
    after = find_next_command("score", pack) if chats and "chat" not in kinds and "force" in kinds else None
    return after or shlex.join(["meta-eval", "run", pack])


def _read_rules(gate: Path | None) -> Gate | None:
    """The rules to plan by, read before a pack is made."""
    if gate is None:
        return None
    from meta_eval.judge.gate import read_gate

    return read_gate(gate)


def _read_flips(text: str | None, option: str) -> PlannedFlips | None:
    """The share of docs that flip, from 0 to 1: named in percent, or of each task as runs show it.

    Raises:
        UserError: It is neither a percentage nor a folder of results that can be read.
    """
    if text is None:
        return None
    from meta_eval.judge.flips import measure_flips

    if os.path.lexists(text):
        return measure_flips([Path(text)])
    percentage = float(text) if text.replace(".", "", 1).isdecimal() else None
    if percentage is None or not 0 <= percentage <= 100:
        raise ConfigError(
            f"{text} is neither a percentage nor a folder of results", where=option, hint=f"Such as {option} 4"
        )
    return percentage / 100


def _plan(
    pack: Path, gate: Gate | None, flips: PlannedFlips | None, sampled: PlannedFlips | None, *, decision: bool
) -> PackPlan:
    from meta_eval.judge.plan import plan_pack

    with show_progress("planning"):
        return plan_pack(pack, gate, flips, sampled_flips=sampled, whole=decision)


def _is_invented(manifest: Manifest) -> bool:
    """Whether the pack is of invented docs, as those of a sample, which is no benchmark to plan."""
    return all(entry.invented for entry in manifest.tasks.values())


# How the length of a prompt is known, its sign, and what that means.
_SIGNS = (("counted", "", ""), ("bound", "<", "at most"), ("estimated", "~", "estimated"))

# Tasks of a level that are named in a line; of more the number is given.
_NAMED = 3


def _print_trust(manifest: Manifest) -> None:
    """Say how far the verdicts of tasks are proven: ``verified a, b; compared c; never compared 4 tasks``."""
    from meta_eval.pack.manifest import Trust

    levels: dict[str, list[str]] = {level: [] for level in get_args(Trust)}
    for name, entry in manifest.tasks.items():
        if entry.trust is not None:
            levels[entry.trust].append(name)
    shown = {level: names if len(names) <= _NAMED else [f"{len(names)} tasks"] for level, names in levels.items()}
    if line := "; ".join(f"{level} {', '.join(names)}" for level, names in shown.items() if names):
        err.print(f"how our graders were checked: {line}", style="dim", soft_wrap=True)


def _print_plan(plan: PackPlan, manifest: Manifest, *, decision: bool) -> None:
    """The table of a plan; without it a note for each weak point. Invented docs have none: they are no benchmark."""
    from meta_eval.reports.plan_table import describe_weak_points, plan_table, sampled_table

    if decision:
        from meta_eval.reports.terminal import print_table

        for table in (plan_table(plan), sampled_table(plan)):
            if table.rows:
                err.print()
                print_table(err, table)
                for line in table.legend.splitlines():
                    err.print(line)
        err.print()
    elif not _is_invented(manifest):
        sentences = list(describe_weak_points(plan))
        for sentence in sentences:
            warn(f"{sentence}. More: --plan" if sentence == sentences[-1] else sentence)


def print_left_out(manifest: Manifest) -> None:
    """Print the tasks that could not be prepared, with the reasons."""
    if not manifest.left_out:
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("left out", overflow="fold")
    table.add_column("why", overflow="fold")
    for name, reason in manifest.left_out.items():
        table.add_row(Text(name), Text(reason))
    err.print(table)


def _table(manifest: Manifest) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", no_wrap=True)
    for heading in ("docs", "prompt", "answer"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=6)
    scores = [score for entry in manifest.tasks.values() for score in entry.shown_scores]
    if not _is_invented(manifest):
        table.add_column("recorded" if scores and all(score.origin == "recorded" for score in scores) else "published")
    for name, entry in manifest.tasks.items():
        length = entry.longest_prompt
        sign = next(sign for method, sign, _ in _SIGNS if method == length.method)
        table.add_row(
            name,
            f"{entry.docs:,}",
            f"{sign}{length.tokens:,}",
            f"{length.max_gen_toks:,}" if length.max_gen_toks else "-",
            *([] if _is_invented(manifest) else [", ".join(map(_number, entry.shown_scores)) or "-"]),
        )
    return table


def _print_units(manifest: Manifest) -> None:
    """Say what the columns prompt and answer count."""
    methods = {entry.longest_prompt.method for entry in manifest.tasks.values()}
    signs = [f"{sign} {meaning}" for method, sign, meaning in _SIGNS if method in methods and sign]
    brackets = f" ({', '.join(signs)})" if signs else ""
    err.print(f"in tokens: the longest prompt{brackets}, and the limit of an answer", style="dim")


def _number(number: ReferenceScoreEntry) -> str:
    """Format a score: ``48.3 macro`` if published, ``42.86 acc_norm`` if recorded. Mark scores from other settings."""
    recorded = number.origin == "recorded"
    words = [
        f"{round(number.value, 2):g}",
        number.metric.removesuffix(",none") if recorded else number.averaging or "",
        "" if number.same_settings else f"({number.shots}-shot)",
    ]
    return " ".join(filter(None, words))
