"""Reads files of answers. Any program may have written them, and a crash may have cut them off.

Lines are only appended. A crash loses at most the last line, which is then not JSON. Such a line is skipped and
counted, and its request has no answer. Anything else unexpected is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from meta_eval.ask.answers.answer_form import AnswerForm, Holding, make_requests_error
from meta_eval.ask.answers.form_registry import OWN, list_forms
from meta_eval.ask.answers.requests_form import ANSWERS
from meta_eval.ask.request import Key, Request
from meta_eval.base.errors import UserError, locating
from meta_eval.base.inputs import describe_error, open_regular
from meta_eval.base.json_text import parse_loose_json
from meta_eval.harness.answer import SHORT, Answer, AnswersError, check_answer, make_unread_error
from meta_eval.harness.endpoint_notes import reads_tools_lost
from meta_eval.harness.raw_samples import MAX_SAMPLE_BYTES, read_raw_samples

# By form: what `AnswerForm.bind` found.
Names = Mapping[str, Mapping[str, str | None]]


@dataclass(slots=True)
class Answers:
    """The content of several files of answers.

    Attributes:
        by_key: By id and request_sha256. The first of several equal answers.
        failed: By id and request_sha256, if every attempt failed. The last attempt.
        doubled: By id and request_sha256: the places of two different answers.
        cut_off: Places of lines that are not JSON.
        otherwise: By id: the place of an answer that repeats its request. If no answer fits today's request, this shows
            that the request has changed.
        settings: By the hash of the settings of `meta-eval run`: the first file that names it.
        orders: By the hash of the seed of a random order: the first file that names it.
        second: The files of second answers to docs, which change no score.
        endpoint: What each run of `meta-eval run` noted about its endpoint, in the order of lines.
        deployments: Sets of endpoints that a run said to be one deployment.
    """

    by_key: dict[Key, Answer] = field(default_factory=dict)
    failed: dict[Key, Answer] = field(default_factory=dict)
    doubled: dict[Key, tuple[str, str]] = field(default_factory=dict)
    cut_off: list[str] = field(default_factory=list)
    otherwise: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    orders: dict[str, str] = field(default_factory=dict)
    second: list[str] = field(default_factory=list)
    endpoint: list[Mapping[str, Any]] = field(default_factory=list)
    deployments: list[frozenset[str]] = field(default_factory=list)

    def key(self, request_id: str, request_sha256: str) -> Key:
        """The key of the answer to a request. Prefers an answer that repeats the whole request."""
        keys = (request_id, request_sha256), (request_id, request_sha256[:SHORT])
        return next((key for key in keys if key in self.by_key or key in self.failed), (request_id, None))


def read_answers(
    files: Sequence[Path],
    *,
    prefer: Literal["last"] | None = None,
    names: Names = MappingProxyType({}),
) -> Answers:
    """Read files of answers. Their order matters only for ``prefer``.

    Args:
        files: The files.
        prefer: ``last`` takes the last of several different answers, in the order of files and lines. Otherwise they
            are kept in ``doubled``.
        names: By form: what its `AnswerForm.bind` found.

    Raises:
        AnswersError: A file cannot be read, or a complete line is not an answer.
    """
    answers, forms = Answers(), list_forms()
    for file in files:
        for answer in _lines(file, answers, forms, names):
            key = answer.key
            first = answers.by_key.get(key)
            if answer.request_sha256 is not None:
                answers.otherwise.setdefault(answer.id, answer.where)
            if answer.error is not None:
                answers.failed[key] = answer
            elif first is None or prefer == "last":
                answers.by_key[key] = answer
            elif not first.has_same_content(answer):
                answers.doubled.setdefault(key, (first.where, answer.where))
    for name in answers.by_key:
        answers.failed.pop(name, None)
    return answers


def read_bound_answers(
    files: Sequence[Path], build_requests: Callable[[], Iterable[Request]], *, prefer: Literal["last"] | None = None
) -> Answers:
    """Read files of answers. Files of requests say what the answers of their form answer; files of golds are skipped.

    Args:
        files: The files.
        build_requests: Makes the requests of the pack. Called only if there are files of requests.
        prefer: As in `read_answers`.

    Raises:
        AnswersError: As in `read_answers` and `AnswerForm.bind`.
    """
    forms = list_forms()
    kinds = {file: _find_kind(_read_first(file), forms) for file in files}
    names = {}
    for form in forms:
        if asked := [file for file, kind in kinds.items() if kind == (form, "requests")]:
            names[form.name] = form.bind(asked, build_requests())
    answered = [file for file, (_, holding) in kinds.items() if holding not in ("requests", "golds")]
    return read_answers(answered or files, prefer=prefer, names=names)


def _read_first(file: Path) -> object:
    """The first line of a file; None if it is not JSON, or cannot be read."""
    try:
        raw = next(read_raw_samples(file), None)
        return None if raw is None else parse_loose_json(raw.content)
    except (UserError, ValueError):
        return None


def _lines(file: Path, answers: Answers, forms: Sequence[AnswerForm], names: Names) -> Iterator[Answer]:
    tools_lost = False
    try:
        with open_regular(file) as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_SAMPLE_BYTES + 1), b""), 1):
                where = f"{file}, line {number}"
                if len(line) > MAX_SAMPLE_BYTES:
                    with locating(where):
                        raise make_unread_error(f"it is longer than {MAX_SAMPLE_BYTES >> 20} MiB")
                if not line.strip():
                    continue
                try:
                    content = parse_loose_json(line)
                except ValueError:
                    answers.cut_off.append(where)
                    continue
                if isinstance(content, dict) and content.get("format") == ANSWERS:
                    _read_header(content, str(file), answers)
                    lost = reads_tools_lost(note) if isinstance(note := content.get("endpoint"), Mapping) else None
                    tools_lost = tools_lost if lost is None else lost
                    continue
                with locating(where):
                    if (answer := _read_answer(content, file, where, forms, names)) is not None:
                        yield replace(answer, tools_lost=True) if tools_lost else answer
    except OSError as error:
        hint = "Name files of answers to the requests that `meta-eval export` writes"
        raise AnswersError(f"cannot be read: {describe_error(error)}", where=str(file), hint=hint) from None


def _read_answer(content: object, file: Path, where: str, forms: Sequence[AnswerForm], names: Names) -> Answer | None:
    form, holding = _find_kind(content, forms)
    if holding == "requests":
        raise make_requests_error(str(file))
    try:
        answer = form.read_answer(content, names.get(form.name, {}), where)
    except ValueError as error:
        raise make_unread_error(f"it {error}") from None
    return None if answer is None else check_answer(answer)


def _find_kind(content: object, forms: Sequence[AnswerForm]) -> tuple[AnswerForm, Holding | None]:
    """The form of a line, and what it holds. A line of no form is to be read as our own, which says what is wrong."""
    found = ((form, holding) for form in forms if (holding := form.find_kind(content)) is not None)
    return next(found, (OWN, None))


def _read_header(content: Mapping[str, Any], file: str, answers: Answers) -> None:
    answers.settings.setdefault(str(content.get("settings_sha256")), file)
    if "seed_sha256" in content:
        answers.orders.setdefault(str(content["seed_sha256"]), file)
    if isinstance(content.get("endpoint"), Mapping):
        answers.endpoint.append(content["endpoint"])
    if isinstance(deployment := content.get("deployment"), list):
        answers.deployments.append(frozenset(map(str, deployment)))
    if content.get("rerun"):
        answers.second.append(file)
