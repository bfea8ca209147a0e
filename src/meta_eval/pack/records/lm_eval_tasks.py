"""Snapshots of lm-eval's own tasks: their docs and rendered prompts, without answers.

Prompts of messages are rendered with the model's chat template, as lm-eval's engines render them, or are the body of a
chat request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from meta_eval.base.display import plural, quoted
from meta_eval.base.errors import ConfigError, DataError, PackError, SourceError, locating, suggest_name
from meta_eval.base.hashing import hash_pieces
from meta_eval.base.inputs import MAX_DATA, read_text
from meta_eval.base.logs import log, report_progress
from meta_eval.base.pack_names import expand_patterns, is_name, join_names, split_excluded
from meta_eval.base.thresholds import MAX_GEN_TOKS, NAMED
from meta_eval.harness.families import choose_bos, remove_bos
from meta_eval.harness.results_file import format_as_lm_eval, hash_as_lm_eval
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.chat_rendering import ChatTemplate, fetch_chat_template
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.records.format import LM_EVAL
from meta_eval.pack.records.next_token import add_next_token_choices
from meta_eval.pack.records.pack_task import choose_first_metric, list_filters, make_task
from meta_eval.pack.records.recorded_docs import (
    RecordedDoc,
    RecordedDocs,
    begins_answer,
    count_repeated_prompts,
    format_chat_body,
    read_sent_settings,
    split_unconditional,
)
from meta_eval.pack.records.run_selection import leave_tasks_out
from meta_eval.pack.records.task_code import TaskCode, find_allowed_code, has_task, list_group_members, list_task_names
from meta_eval.pack.records.task_groups import TaskGroup, find_task_group, list_task_groups
from meta_eval.pack.records.task_source import CandidateTask, TaskSource
from meta_eval.pack.task_choice import ROLLING
from meta_eval.pack.templates.template_folder import need_named_folder


@dataclass(frozen=True, slots=True)
class ChatRequests:
    """How prompts are rendered."""

    render: Callable[..., str]
    """Messages to text; ``add_generation_prompt`` as lm-eval passes it."""

    bos: str | None
    """The text of the tokenizer's BOS; None without a BOS."""

    multiturn: bool
    """Whether each example is a separate turn."""

    asked_as: Literal["text", "chat"] = "text"
    """``chat`` if ``render`` makes the bodies of chat requests."""

    def bare(self, prompt: str) -> str:
        """Remove the leading BOS, which every engine adds."""
        return remove_bos(prompt, self.bos)


def read_chat_template(config: Config) -> ChatRequests | None:
    """Read how a configuration renders messages; None if it asks for plain texts. A chat endpoint gets messages.

    Raises:
        ConfigError: The tokenizer cannot be loaded, or it has no chat template.
    """
    if "chat" in find_backend(config.backend).kinds:
        # The body has the messages that lm-eval's client would send.
        return ChatRequests(lambda messages, **_: format_chat_body(messages), None, config.fewshot_as_multiturn, "chat")
    if not config.apply_chat_template:
        return None
    place = config.tokenizer_of()
    try:
        template = fetch_chat_template(place)
    except SourceError as error:
        raise ConfigError(f"the chat template of {place} cannot be loaded: {error.what}", hint=error.hint) from None
    if template is None:
        raise ConfigError(f"the tokenizer of {place} has no chat template", hint="Set it to false")

    def render(messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        return _rendered(template, messages, add_generation_prompt)

    return ChatRequests(render, choose_bos(template.bos), config.fewshot_as_multiturn)


def _rendered(template: ChatTemplate, messages: Sequence[Mapping[str, Any]], opened: bool) -> str:
    """Render messages as lm-eval does. If a template refuses system turns, they are left out."""
    try:
        return template.render(messages, add_generation_prompt=opened, continue_final_message=not opened)
    except ValueError:
        others = [message for message in messages if message["role"] != "system"]
        return template.render(others, add_generation_prompt=opened, continue_final_message=not opened)


_QUESTIONS = "Write one JSON object a line, as UTF-8, with the same keys in each"

_PLACE = "Correct data_files of the task: a path counts from the folder in which you call meta-eval"

# A text that no doc holds, to see whether a value of it is rendered at all.
_FILLED = "\ue000"

# lm-eval's default seed for drawing examples (`simple_evaluate`, fewshot_random_seed).
_SEED = 1234


def find_lm_eval_tasks(
    names: Sequence[str], template_dir: Path
) -> tuple[dict[str, int | None], dict[str, tuple[str, ...]]]:
    """Find the tasks of names, with shots if the user or a group gives them, and the groups among the names.

    What stands after a minus is left out.

    Args:
        names: Tasks, patterns such as ``mmlu_*``, groups of lm-eval and of plug-ins;
            ``arc_challenge@25`` sets the shots.
        template_dir: The user's own tasks.

    Raises:
        ConfigError: There is no such task or group, or a task is named with two different numbers of shots.
    """
    wanted_names, excluded = split_excluded(expand_patterns(names, list_task_names(template_dir)))
    shots, groups = _select_named(wanted_names, template_dir)
    included, groups = leave_tasks_out(shots, groups, _select_named(excluded, template_dir)[0])
    return {name: shots[name] for name in included}, groups


def _select_named(names: Sequence[str], template_dir: Path) -> tuple[dict[str, int | None], dict[str, tuple[str, ...]]]:
    tasks: dict[str, int | None] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for written_name in names:
        name, at, number = written_name.partition("@")
        if (at and not number.isdecimal()) or not is_name(name):
            raise ConfigError(f"{written_name!r} is not a task name", hint="Write arc_challenge, or arc_challenge@25")
        if (group := find_task_group(name)) is not None:
            if at:
                raise ConfigError(f"{name} fixes the shots of its tasks", hint=f"Write {name}")
            _add_group(group, template_dir, tasks, groups)
            continue
        shots = int(number) if at else None
        members: tuple[str, ...] = (name,)
        if not has_task(name, template_dir):
            members = groups[name] = list_group_members(name)
        if not members:
            need_named_folder(template_dir)
            ready = [name for known in list_task_groups() for name in known.list_names()]
            raise ConfigError(
                f"unknown task or group {name!r}: neither lm-eval nor template_dir has it{suggest_name(name, ready)}",
                hint="`lm_eval ls tasks` lists those of lm-eval"
                + (f"; ready groups are {', '.join(ready)}" if ready else ""),
            )
        for member in members:
            _ask(tasks, member, shots)
    return tasks, groups


def _add_group(
    group: TaskGroup, template_dir: Path, tasks: dict[str, int | None], groups: dict[str, tuple[str, ...]]
) -> None:
    """Add the tasks of a group with its shots, the groups of lm-eval in it, and the group of all its tasks."""
    members: dict[str, None] = {}
    for part in group.parts:
        for name in part.tasks:
            of_part: tuple[str, ...] = (name,)
            if not has_task(name, template_dir) and (of_part := list_group_members(name)):
                groups[name] = of_part
            if not of_part:
                log.warning(f"{group.name}: {part.name} is left out, because the installed lm-eval has no {name}")
            for member in of_part:
                _ask(tasks, member, part.shots)
            members.update(dict.fromkeys(of_part))
    if not members:
        raise ConfigError(f"the installed lm-eval has no task of {group.name}", hint="Install a newer one")
    for warning in group.warnings:
        log.warning(f"{group.name}: {warning}")
    groups[group.name] = tuple(members)


def _ask(tasks: dict[str, int | None], name: str, shots: int | None) -> None:
    if tasks.setdefault(name, shots) != shots:
        raise ConfigError(f"{name} is named with two different numbers of shots", hint="Name it once")


def read_lm_eval_task(
    code: TaskCode, shots: int | None, chat: ChatRequests | None = None, system_instruction: str | None = None
) -> tuple[RecordedDocs, int]:
    """Have lm-eval load a task and build its requests.

    Args:
        code: The task.
        shots: Number of examples before each question; None for the task's own.
        chat: What renders its prompts; None for plain texts.
        system_instruction: The system message before each prompt; None for none.

    Returns:
        The rows, without answers, and their number of shots.

    Raises:
        SourceError: Its dataset is not available.
        DataError: A pack cannot hold its requests.
    """
    from meta_eval.harness.evaluator import Evaluator

    where = f"{LM_EVAL}, {code.name}"
    evaluator = Evaluator(code.root / code.file.parent)
    try:
        task = evaluator.load(code.name)
    except PackError as error:
        _check_questions(code.settings)
        hint = error.hint or "Mend its YAML and functions; or, if its dataset is on the hub, go online"
        raise SourceError(f"lm-eval cannot load it: {error.what}", where=where, hint=hint) from None
    if chat and chat.asked_as == "chat" and str(task.OUTPUT_TYPE) != "generate_until":
        raise DataError(
            "compares the likelihoods of texts, which chat endpoints do not give",
            where=where,
            hint="Use a backend of completions, or leave the task out of tasks",
        )
    default_shots = task.get_config("num_fewshot")
    if shots is not None and default_shots != 0:
        task.set_config(key="num_fewshot", value=shots)
    elif shots:
        raise ConfigError(f"{code.name} has a fixed number of 0 shots", where="tasks", hint=f"Write {code.name}")
    elif default_shots is None:
        task.set_config(key="num_fewshot", value=0)
    task.set_fewshot_seed(seed=_SEED)
    (_, docs), *_ = task.dataset.items()
    if not docs:
        raise DataError("has no docs", where=where)
    files = _list_data_files(code.settings.get("dataset_kwargs"))
    in_files = join_names(files, NAMED)
    if files:
        with locating(in_files), evaluator.at_work(code.name):
            _check_gaps(task, docs)
            _check_choices(task, docs)
    instances: dict[int, list[Any]] = {}
    for instance in evaluator.instances(code.name, task, system_instruction=system_instruction, **_how(chat)):
        instances.setdefault(instance.doc_id, []).append(instance)
    rows = RecordedDocs([], None, chat.bos if chat else None, asked_as=chat.asked_as if chat else "text")
    with evaluator.at_work(code.name):
        targets = [task.doc_to_target(doc) for doc in docs]
        rights = [_right(task, doc, target) for doc, target in zip(docs, targets, strict=True)]
    for number, doc in enumerate(docs):
        doc_instances = sorted(instances.get(number, ()), key=lambda instance: instance.idx)
        with locating(f"{where}, doc {number}"):
            rows.rows.append(_row(doc, doc_instances, targets[number], rights[number], rows, chat))
    if repeated := count_repeated_prompts(rows.rows):
        rows.warnings["duplicate_prompts"] = repeated
    if files:
        with locating(in_files), evaluator.at_work(code.name):
            _check_repeats(rows, [task.doc_to_text(doc) for doc in docs], code.name)
    return rows, int(task.get_config("num_fewshot") or 0)


def _check_gaps(task: Any, docs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse own docs whose question or answer is missing: lm-eval would ask "None", or count it as right.

    An empty part of a prompt is not refused: it may be optional.

    Raises:
        DataError: There is one.
    """
    for key, render in (("doc_to_text", task.doc_to_text), ("doc_to_target", task.doc_to_target)):
        is_read = key == "doc_to_text" or task.config.process_results is None
        for number, doc in enumerate(docs):
            if not any(map(_is_missing, doc.values())):
                continue
            bare = {name: "" if _is_missing(value) else value for name, value in doc.items()}
            given = _render(render, doc)
            shown = _render(render, bare, given)
            empty, filled = (_render(render, dict.fromkeys(doc, text)) for text in ("", _FILLED))
            if (is_read and shown == empty and _FILLED in filled) or given.count("None") > shown.count("None"):
                raise DataError(
                    f"doc {number} (from 0): {key} gives {quoted(given)}, because a value is missing or empty",
                    hint="Write the value, or remove the doc",
                )


def _render(render: Callable[[Mapping[str, Any]], object], doc: Mapping[str, Any], otherwise: str = "") -> str:
    try:
        return str(render(doc))
    except Exception:  # it need not take such a doc; of the whole ones, lm-eval tells
        return otherwise


def _is_missing(value: object) -> bool:
    return value in (None, []) or (isinstance(value, str) and not value.strip())


def _check_choices(task: Any, docs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse own docs for which every answer would count as wrong, or as right.

    Raises:
        DataError: There is one.
    """
    if str(task.OUTPUT_TYPE) != "multiple_choice" or task.config.process_results is not None:
        return
    for number, doc in enumerate(docs):
        choices = task.doc_to_choice(doc) or ()
        target = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
        if len(choices) < 2 or any(map(_is_missing, choices)):
            raise DataError(
                f"doc {number} (from 0) has the choices {quoted([*choices])}",
                hint="Write two or more, none of them empty, or remove the doc",
            )
        if not _find_rights(choices, target):
            raise DataError(
                f"doc {number} (from 0): the right answer {quoted(target)} is not among the {len(choices)} choices, so "
                "every answer would be wrong",
                hint="Write the number of the right choice, from 0, or its whole text",
            )


def _find_rights(choices: Sequence[object], target: object) -> list[int]:
    """The indices of the right choices, as lm-eval finds them."""
    if isinstance(target, str):
        return [choices.index(target)] if target in choices else []
    listed = target if isinstance(target, list) else [target]
    return [index for index in listed if isinstance(index, int) and 0 <= index < len(choices)]


def _check_repeats(rows: RecordedDocs, questions: Sequence[object], name: str) -> None:
    """Tell of own questions that are there twice; those of a public dataset nobody here can correct.

    Raises:
        DataError: The right answers to one differ.
    """
    first: dict[tuple[str, ...], int] = {}
    repeats = []
    for number, (row, question) in enumerate(zip(rows.rows, questions, strict=True)):
        earlier = first.setdefault((str(question), *row.continuations), number)
        if rows.rows[earlier].gold != row.gold:
            raise DataError(
                f"docs {earlier} and {number} (from 0) ask the same, {quoted(question)}, and their right answers "
                f"differ: {quoted(rows.rows[earlier].gold)} and {quoted(row.gold)}",
                hint="Correct one of them, or remove it",
            )
        if earlier != number:
            repeats.append((number, earlier))
    if repeats:
        number, earlier = repeats[0]
        log.warning(
            f"{name}: {plural(len(repeats), 'doc asks', 'docs ask')} what an earlier one does, and all count in the "
            f"score; the first: doc {number}, as doc {earlier} (from 0)"
        )


def _how(chat: ChatRequests | None) -> dict[str, Any]:
    if chat is None:
        return {}
    return {"apply_chat_template": True, "fewshot_as_multiturn": chat.multiturn, "chat_template": chat.render}


def _right(task: Any, doc: Any, target: Any) -> int | None:
    """The index of the right choice, as lm-eval finds it; None unless exactly one is right."""
    if str(task.OUTPUT_TYPE) != "multiple_choice" or task.multiple_input:
        return None
    rights = [] if isinstance(target, list) else _find_rights(task.doc_to_choice(doc), target)
    return rights[0] if rights else None


def _row(
    doc: Mapping[str, Any],
    instances: Sequence[Any],
    target: Any,
    right: int | None,
    rows: RecordedDocs,
    chat: ChatRequests | None,
) -> RecordedDoc:
    if not instances:
        raise DataError("has no choices", hint="Give it some, or leave the task out of tasks")
    kind, first = instances[0].request_type, instances[0].args
    if any(len(instance.args) > 2 for instance in instances):
        raise DataError("uses a picture or a sound, which a pack cannot hold")
    if kind == "loglikelihood":
        conditional, unconditional = split_unconditional([instance.args for instance in instances])
        instances = instances[: len(conditional)]
    else:
        unconditional = False
    several = len({instance.args[0] for instance in instances}) > 1
    if not isinstance(first[0], str) or (several and len({instance.args[1] for instance in instances}) > 1):
        raise DataError(
            "changes both prompt and continuation for each choice, which a pack cannot hold",
            hint="Leave the task out of tasks",
        )
    if kind == "generate_until":
        settings = json.loads(json.dumps(first[1], default=str))
        settings = read_sent_settings(settings, MAX_GEN_TOKS) if rows.asked_as == "chat" else settings
        rows.generation = settings if rows.generation is None else rows.generation
    text = format_as_lm_eval(doc)
    prompt = chat.bare(first[0]) if chat and kind != ROLLING else first[0]
    if prompt != first[0]:
        rows.warnings["prompt_with_bos"] = rows.warnings.get("prompt_with_bos", 0) + 1
    if rows.asked_as == "chat" and begins_answer(prompt):
        rows.warnings["begun_answer"] = rows.warnings.get("begun_answer", 0) + 1
    choices = () if kind in ("generate_until", ROLLING) else tuple(str(instance.args[1]) for instance in instances)
    return RecordedDoc(
        doc=json.loads(text),
        prompt=prompt,
        continuations=choices,
        question_hash=hash_as_lm_eval(text),
        gold=str(target),
        right=right,
        unconditional=unconditional,
        prompts=tuple(chat.bare(instance.args[0]) if chat else instance.args[0] for instance in instances)
        if several
        else (),
    )


def hash_requests(rows: RecordedDocs) -> str:
    """``sha256:`` over all requests of a task. It identifies the data that the hub gave."""
    return "sha256:" + hash_pieces(f"{row.question_hash} {row.prompt_hash} {row.gold}\n" for row in rows.rows)


class LmEvalSource(TaskSource):
    """The tasks of the installed lm-eval, and the user's own.

    Raises:
        ConfigError: A key of the configuration does not fit them.
    """

    def __init__(self, config: Config, config_place: ValuePlace) -> None:
        if not config.bundle:
            raise ConfigError(
                "docs of lm-eval's tasks must be in the pack",
                where=config_place.name_key("bundle"),
                hint="Set bundle: true",
            )
        self._config, self._config_place = config, config_place
        self._template_dir = Path(config.template_dir)
        self._shots: dict[str, int | None] = {}
        self._chat: ChatRequests | None = None
        self._files: list[str] = []

    def choose(self, names: Sequence[str]) -> tuple[list[str], Mapping[str, tuple[str, ...]]]:
        self._shots, groups = find_lm_eval_tasks(names, self._template_dir)
        with locating(self._config_place.name_key("apply_chat_template")):
            self._chat = read_chat_template(self._config)
        return list(self._shots), groups

    def prepare(self, task: str, context: PrepareContext) -> CandidateTask:
        code = find_allowed_code(task, self._template_dir, allow_code=self._config.allow_code)
        self._files += _list_data_files(code.settings.get("dataset_kwargs"))
        return _make_lm_eval_task(code, self._shots[task], context, self._chat)

    def list_files(self) -> Sequence[str]:
        return self._files


def _list_data_files(dataset_kwargs: Any) -> list[str]:
    """The local files that a task names as its data."""
    return [name for name in _name_data_files(dataset_kwargs) if Path(name).is_file()]


def _name_data_files(dataset_kwargs: Any) -> list[str]:
    named = dataset_kwargs.get("data_files") if isinstance(dataset_kwargs, Mapping) else None
    values = named.values() if isinstance(named, Mapping) else [named]
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    return [name for name in names if isinstance(name, str) and "\0" not in name]


def _check_questions(settings: Mapping[str, Any]) -> None:
    """Find what is wrong with a task's own files of questions, which lm-eval could not load.

    Raises:
        InputError: A file cannot be read.
        SourceError: A file is empty, or has a line that is not a JSON object.
    """
    import orjson

    kwargs = settings.get("dataset_kwargs")
    is_here = settings.get("dataset_path") == "json" and "data_dir" not in (kwargs or ())
    for name in _name_data_files(kwargs) if is_here else ():
        if not name.endswith((".json", ".jsonl")) or "://" in name or set("*?[") & set(name):
            continue
        text = read_text(Path(name), limit=MAX_DATA, hint=_QUESTIONS if Path(name).is_file() else _PLACE)
        if not text.strip():
            raise SourceError("is empty", where=name, hint=_QUESTIONS)
        lines = [text] if text.lstrip().startswith("[") else text.split("\n")
        for number, line in enumerate(lines):
            try:
                row = orjson.loads(line.strip() or "{}")
            except orjson.JSONDecodeError as error:
                where = f"{name}:{number + error.lineno}"
                raise SourceError(
                    f"is not JSON: {error.msg}, at column {error.colno}", where=where, hint=_QUESTIONS
                ) from None
            if not isinstance(row, dict | list):
                raise SourceError("is JSON, but not an object", where=f"{name}:{number + 1}", hint=_QUESTIONS)


def _make_lm_eval_task(
    code: TaskCode, shots: int | None, context: PrepareContext, chat: ChatRequests | None
) -> CandidateTask:
    report_progress(f"{code.name}: asking lm-eval for its docs")
    rows, shots = read_lm_eval_task(code, shots, chat, context.config.system_instruction)
    entry = RecordEntry(
        model=None, time=None, results_file=None, lm_eval=None, backend=None, bos_text=chat.bos if chat else None,
        chat_template=chat is not None and chat.asked_as == "text", shots=str(shots), task_version=code.version,
        grader_source=code.source_label, grader_version=code.version,
    )  # fmt: skip
    revision = hash_requests(rows)

    def make(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, rows, entry, context, dataset_id=LM_EVAL, revision=revision, primary_metric=choose_first_metric(code),
            filters=list_filters(code), published=(), delimiter=delimiter,
        )  # fmt: skip

    def postprocess(task: PreparedTask) -> PreparedTask:
        return add_next_token_choices(task, rows, code, context)

    return CandidateTask(make(None), rows, f"{LM_EVAL}, {code.name}", make, postprocess)
