"""Selects the tasks of an evals dataset by name, and explains why others are not available."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meta_eval.base import assets
from meta_eval.base.errors import suggest_name
from meta_eval.base.pack_names import expand_patterns, split_excluded
from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import TemplateFolder
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.sockets import ConfigError, log


@dataclass(frozen=True, slots=True)
class Selection:
    """A task to prepare, and the part of the evals dataset that it reads."""

    template: Template
    dataset: EvalsDataset


Offers = dict[str, list[EvalsDataset]]

_ALLOW_CODE = f"Set allow_code: true to run them in a sandbox; see {assets.asset_path('docs/method/grading.md')}"

# A message lists names up to this number.
_MOST_LISTED = 12
# The group of every recorded run.
_RECORDED = "recorded"


def explain_refusal(template: Template, dataset: EvalsDataset) -> str | None:
    """Explain why an evals dataset does not offer a task; None if it does."""
    spec, identity = template.spec, dataset.identity
    if identity.variant is not None and identity.variant not in spec.variants:
        return (
            f"it is for {' and '.join(spec.variants)} models, and {dataset.dataset_id} is of the {identity.variant} "
            f"model {identity.model}: prompts and golds of the one mean nothing to the other"
        )
    if identity.family is not None and identity.family not in spec.families:
        return f"it is for family {', '.join(spec.families)}, and {dataset.dataset_id} is of family {identity.family}"
    if spec.subset not in dataset.subsets:
        return f"{dataset.dataset_id} has no subset {spec.subset!r}"
    return None


def select_meta_tasks(
    folder: TemplateFolder,
    names: Sequence[str],
    datasets: Sequence[EvalsDataset],
    *,
    allow_code: bool = False,
) -> tuple[tuple[Selection, ...], dict[str, tuple[str, ...]]]:
    """Select tasks of an evals dataset by names of tasks and groups.

    Args:
        folder: The templates.
        names: Tasks, aliases, groups and patterns such as ``mmlu_*``. A minus leaves out.
        datasets: The parts of the evals dataset; only the embedded sample has several. Each task reads the first part
            that offers it.
        allow_code: Whether to offer tasks that run code written by the model. Otherwise groups leave them out;
            `find_withheld_tasks` lists these.

    Returns:
        The tasks in the order of their first mention, and the members of every requested group.

    Raises:
        ConfigError: A name is unknown, the evals dataset does not offer a task, or a group is empty.
    """
    fitting = _fitting(folder, datasets)
    offered = {name: parts for name, parts in fitting.items() if allow_code or not folder.tasks[name].unsafe_code}
    aliases = {alias: name for name, template in folder.tasks.items() for alias in template.spec.aliases}
    included, excluded = split_excluded(expand_patterns(names, offered))
    offers = _offers(folder, fitting, datasets)
    without = _excluded(folder, excluded, aliases, offers)
    for renamed in dict.fromkeys(name for name in included if name in aliases and name not in folder.tasks):
        log.warning(f"{renamed} is another name of {aliases[renamed]}, which the pack and its results use")
    chosen: dict[str, Selection] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for written_name in included:
        name = aliases.get(written_name, written_name)
        if name in folder.tasks:
            if name in fitting and name not in offered:
                raise ConfigError(f"{written_name!r} runs model-written code", hint=_ALLOW_CODE)
            if name not in offered:
                reasons = "; ".join(filter(None, (explain_refusal(folder.tasks[name], part) for part in datasets)))
                raise ConfigError(f"{written_name!r} cannot be prepared: {reasons}", hint=offers)
            chosen.setdefault(name, Selection(folder.tasks[name], offered[name][0]))
        elif name in folder.groups:
            members = _without_copies(_members(folder, name, offered), without, name)
            _refuse_clash(name, members)
            if not members and _members(folder, name, fitting):
                raise ConfigError(f"every task of the group {name!r} runs model-written code", hint=_ALLOW_CODE)
            if not members:
                raise ConfigError(f"{datasets[0].dataset_id} has no task of the group {name!r}", hint=offers)
            groups[name] = tuple(selection.template.name for selection in members)
            for selection in members:
                chosen.setdefault(selection.template.name, selection)
        else:
            if name == _RECORDED:
                what = f"{name!r} means the tasks of a recorded run, and {datasets[0].dataset_id} is none"
                raise ConfigError(what, hint=offers)
            near = suggest_name(name, [*folder.tasks, *folder.groups, *aliases])
            raise ConfigError(f"unknown task or group {name!r}{near}", hint=offers)
    remaining = {name: tuple(member for member in members if member not in without) for name, members in groups.items()}
    left = tuple(selection for name, selection in chosen.items() if name not in without)
    if not left:
        raise ConfigError("leaves out every task", hint=offers)
    return left, {name: members for name, members in remaining.items() if members}


def _excluded(folder: TemplateFolder, names: Sequence[str], aliases: Mapping[str, str], hint: str) -> set[str]:
    """The tasks that names with a minus leave out."""
    excluded: set[str] = set()
    for name in (aliases.get(written_name, written_name) for written_name in names):
        if name not in folder.tasks and name not in folder.groups:
            near = suggest_name(name, [*folder.tasks, *folder.groups, *aliases])
            raise ConfigError(f"unknown task or group to leave out: {name!r}{near}", hint=hint)
        members = (member for member, task in folder.tasks.items() if name in task.spec.groups)
        excluded |= {name} if name in folder.tasks else set(members)
    return excluded


def list_groups(folder: TemplateFolder, datasets: Sequence[EvalsDataset] | None) -> list[str]:
    """List the groups of a template folder, or only those that an evals dataset has tasks for."""
    if datasets is None:
        return list(folder.groups)
    fitting = _fitting(folder, datasets)
    return [group for group in folder.groups if _members(folder, group, fitting)]


def find_withheld_tasks(
    folder: TemplateFolder, groups: Iterable[str], datasets: Sequence[EvalsDataset]
) -> tuple[str, ...]:
    """Find the tasks that groups leave out because they run code written by the model, which is not allowed here."""
    fitting = _fitting(folder, datasets)
    code = {name: parts for name, parts in fitting.items() if folder.tasks[name].unsafe_code}
    return tuple(dict.fromkeys(member.template.name for group in groups for member in _members(folder, group, code)))


def _fitting(folder: TemplateFolder, datasets: Sequence[EvalsDataset]) -> Offers:
    return {
        name: parts
        for name, template in folder.tasks.items()
        if (parts := [part for part in datasets if explain_refusal(template, part) is None])
    }


def _members(folder: TemplateFolder, group: str, offered: Offers) -> list[Selection]:
    """The tasks of a group, each from the first part of the dataset that has a family of the group."""
    selections = []
    for name, parts in offered.items():
        template = folder.tasks[name]
        part = next((part for part in parts if template.in_group(group, part.identity.family)), None)
        if part is not None:
            selections.append(Selection(template, part))
    return selections


def _without_copies(members: Sequence[Selection], without: set[str], group: str) -> list[Selection]:
    """The members of a group without copies of tasks that are in it, and with one copy of any other task: the same rows
    count once."""
    copy_of = {member.template.name: member.template.spec.copy_of for member in members}
    taken: dict[str, str] = {}
    copies: dict[str, str] = {}
    for name in sorted(copy_of.keys() - without, key=lambda name: (copy_of[name] is not None, [*copy_of].index(name))):
        copies[name] = taken.setdefault(_find_original(name, copy_of), name)
    for name, original in copies.items():
        if name != original:
            log.warning(f"{name} is left out of {group}: it reads the rows of {original}. -{original} takes it instead")
    return [
        selection
        for selection in members
        if copies.get(selection.template.name, selection.template.name) == selection.template.name
    ]


def _find_original(name: str, copy_of: Mapping[str, str | None]) -> str:
    """The task of which a task is a copy, or a copy of a copy; the first by name if these go round."""
    seen = [name]
    while (original := copy_of.get(seen[-1])) is not None:
        if original in seen:
            return min(seen)
        seen.append(original)
    return seen[-1]


def _refuse_clash(group: str, members: Sequence[Selection]) -> None:
    """Refuse a group in which two tasks claim the same subset. This happens if the family of the evals dataset is
    unknown; only the user knows which task fits."""
    claims: dict[tuple[int, str], str] = {}
    for selection in members:
        name = selection.template.name
        if selection.dataset.identity.family is not None:
            continue
        key = (id(selection.dataset), selection.template.spec.subset)
        if key in claims:
            raise ConfigError(
                f"the group {group!r} is ambiguous: {claims[key]} and {name} both read the subset {key[1]!r}, and the "
                "family of this evals dataset is unknown",
                hint="Name single tasks, or name the folder like its dataset: Llama-3.1-8B-Instruct-evals",
            )
        claims[key] = name


def _offers(folder: TemplateFolder, offered: Offers, datasets: Sequence[EvalsDataset]) -> str:
    """Name what an evals dataset offers, or how to list it."""
    groups = [group for group in folder.groups if _members(folder, group, offered)]
    names = [*groups, *sorted(offered)]
    if not names:
        subsets = [subset for part in datasets for subset in part.subsets]
        shown = ", ".join(subsets[:_MOST_LISTED]) + (", …" if len(subsets) > _MOST_LISTED else "")
        return f"No task of the template folder uses a subset of {datasets[0].dataset_id}, which has: {shown}"
    if len(names) <= _MOST_LISTED:
        return f"This evals dataset offers: {', '.join(names)}"
    listing = f"meta-eval tasks --evals-dataset {datasets[0].dataset_id}"
    return f"This evals dataset offers {len(groups)} groups and {len(offered)} tasks: `{listing}` lists them"
