"""Files of requests and answers: the socket for their forms, the form of meta-eval's own, and the reader of answers.

A package adds a form by an entry point of the group ``meta_eval.answer_forms``, which names an `AnswerForm`. ``export
--to NAME`` writes it, and every command that reads answers knows its lines by their content.

Any program may have written answers, and a crash may have cut them off. Lines are only appended. A crash loses at most
the last line, which is then not JSON. Such a line is skipped and counted, and its request has no answer. Anything else
unexpected is an error. The format is in docs/reference/files.md.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request, RequestKey
from meta_eval.ask.request_kinds import encode_requests, find_request_kind
from meta_eval.base.display import quoted
from meta_eval.base.errors import ConfigError, UserError, locating, suggest_name
from meta_eval.base.extensions import Extension, ExtensionError, find_extensions, load_extension
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import (
    describe_error,
    describe_form,
    format_json,
    is_deep,
    open_regular,
    parse_loose_json,
    refuse_repeated_names,
)
from meta_eval.base.logs import log
from meta_eval.base.secrets import hide_secrets
from meta_eval.harness.answer import SHORT, Answer, AnswersError, check_answer, make_unread_error, read_answer
from meta_eval.harness.doc_results import MAX_SAMPLE_BYTES
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.provenance import reads_tools_lost
from meta_eval.harness.sample_files import read_raw_samples
from meta_eval.pack.baseline import compute_grading_fingerprints
from meta_eval.pack.manifest import MANIFEST, Manifest

# What a line is of: requests, answers, or the right answers that a record format reads beside them.
Holding = Literal["requests", "answers", "golds"]


@dataclass(frozen=True, slots=True)
class Export:
    """What `export` writes."""

    pack: Path
    """The pack."""

    manifest: Manifest
    """Its manifest."""

    evaluator: Evaluator
    """Its evaluator."""

    tasks: Sequence[str]
    """The tasks."""

    encoder: Encoder | None
    """Makes token ids; None if the form takes none, or the tokenizer is not on this machine."""

    force: bool
    """Whether the requests ask for log-probabilities alone: those of kind ``force`` and ``choices``."""

    edited: Sequence[str]
    """Files of the pack that were edited after prepare."""


class AnswerForm(ABC):
    """A form of files of requests and answers."""

    name: ClassVar[str]
    """As ``--to`` has it."""

    takes_token_ids: ClassVar[bool] = False
    """Whether its requests hold token ids."""

    mark: ClassVar[re.Pattern[str] | None] = None
    """What is found in the first and last 4,096 bytes of each file of requests. An existing file without it is not
    replaced; where there is none, no existing file is."""

    @abstractmethod
    def find_kind(self, line: object) -> Holding | None:
        """What a line holds, that was parsed as JSON; None if it is not of this form."""

    def check_export(self, export: Export) -> None:  # noqa: B027 (some hold every request)
        """Check that the form can hold the requests, before any is written.

        Raises:
            ConfigError: It cannot.
        """

    @abstractmethod
    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        """Yield the lines of a file of requests, each with its line break.

        Raises:
            PackError: It cannot hold a request.
        """

    @abstractmethod
    def read_answer(self, line: object, names: Mapping[str, str | None], where: str) -> Answer | None:
        """Read a line that holds an answer; None if it answers no request of the pack.

        Args:
            line: The line, parsed as JSON.
            names: What `bind` found.
            where: File and line.

        Raises:
            AnswersError, ValueError: It is no answer. The text of a ValueError continues "it …".
        """

    def bind(self, files: Sequence[Path], requests: Iterable[Request]) -> Mapping[str, str | None]:  # noqa: ARG002
        """Find the requests of a pack that files ask which `export` did not write.

        Args:
            files: Files of requests.
            requests: The requests of the pack.

        Returns:
            By the name of a request in these files: the name that `export` gives the same request of the pack; None if
            the pack has none.

        Raises:
            AnswersError: The form names requests in one way alone; or none of the requests is of the pack.
        """
        raise make_requests_error(str(files[0]))


def make_requests_error(file: str) -> AnswersError:
    """The error of a file of requests in the place of one of answers."""
    return AnswersError("holds requests, not answers", where=file, hint="Name the answers file")


_FORMAT = "meta-eval requests"
VERSION = 1

# The first line of a file of answers that `meta-eval run` wrote. Other files do not need it.
ANSWERS = "meta-eval answers"


class RequestsForm(AnswerForm):
    """JSON Lines, described in docs/reference/files.md."""

    name = "requests"
    takes_token_ids: ClassVar[bool] = True
    mark = re.compile(rf'\A\{{"format": "{_FORMAT}"')

    def find_kind(self, line: object) -> Holding | None:
        if not isinstance(line, Mapping):
            return None
        is_header = "format" in line and "id" not in line
        return "requests" if is_header and line["format"] != ANSWERS else "answers"

    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        yield _format_line(_header(export))
        yield from _format_requests(requests, export.encoder)

    def read_answer(self, line: object, names: Mapping[str, str | None], where: str) -> Answer:  # noqa: ARG002
        return read_answer(line, where)


def _header(export: Export) -> dict[str, Any]:
    pack, manifest, encoder = export.pack, export.manifest, export.encoder
    keys = compute_grading_fingerprints(pack, manifest)
    return {
        "format": _FORMAT,
        "version": VERSION,
        "model": manifest.run_settings.model_name,
        "seed": manifest.run_settings.seed,
        "manifest_sha256": hash_file(pack / MANIFEST),
        "tasks": {name: keys[name] for name in export.tasks},
        "bos_token_id": encoder.bos if encoder else None,
        **({"force": True} if export.force else {}),
        **({"edited": export.edited} if export.edited else {}),
    }


def _format_requests(requests: Iterator[Request], encoder: Encoder | None) -> Iterator[str]:
    for request in encode_requests(requests, encoder):
        yield _format_line(_fields(request))


def _fields(request: Request) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": request.id,
        "task": request.task,
        "doc": request.doc,
        "kind": request.kind,
        "prompt": request.prompt,
        "prompt_sha256": request.prompt_sha256,
        "request_sha256": request.sha256,
    }
    fields |= find_request_kind(request.kind).format_fields(request)
    ids = {"prompt_token_ids": request.prompt_ids, "continuation_token_ids": request.continuation_ids}
    return fields | {name: value for name, value in ids.items() if value is not None}


def _format_line(content: dict[str, Any]) -> str:
    return format_json(content) + "\n"


ANSWER_FILES_GROUP = "meta_eval.answer_forms"

OWN = RequestsForm()


def find_form(name: str) -> AnswerForm:
    """The form of a name.

    Raises:
        ConfigError: There is none of this name.
        ExtensionError: Its package cannot be loaded.
    """
    others = find_extensions(ANSWER_FILES_GROUP, (OWN.name,))
    if name == OWN.name:
        return OWN
    if name not in others:
        names = sorted({OWN.name, *others})
        raise ConfigError(
            f"unknown form {name}{suggest_name(name, names)}", where="--to", hint=f"Available: {', '.join(names)}"
        )
    return _load_form(others[name])


def list_forms() -> list[AnswerForm]:
    """The forms of other packages, by name, then our own. A broken one is a warning."""
    forms = []
    for extension in find_extensions(ANSWER_FILES_GROUP, (OWN.name,)).values():
        try:
            forms.append(_load_form(extension))
        except ExtensionError as error:
            log.warning(str(error))
    return [*forms, OWN]


def _load_form(extension: Extension) -> AnswerForm:
    form: AnswerForm = load_extension(extension, AnswerForm, name=(str,), mark=(re.Pattern, type(None)))
    if form.name != extension.name:
        value = extension.points[0].value
        raise ExtensionError(f"defines the form {form.name}", where=f"{extension.name} ({value})")
    return form


# By form: what `AnswerForm.bind` found.
Names = Mapping[str, Mapping[str, str | None]]


@dataclass(slots=True)
class Answers:
    """The content of several files of answers."""

    by_key: dict[RequestKey, Answer] = field(default_factory=dict)
    """By id and request_sha256, in each length that a line has. The first of several equal answers."""

    failed: dict[RequestKey, Answer] = field(default_factory=dict)
    """By id and request_sha256, if every attempt failed. The last attempt."""

    doubled: dict[RequestKey, tuple[str, str]] = field(default_factory=dict)
    """By id and request_sha256: the places of two different answers."""

    replaced: dict[RequestKey, tuple[str, str]] = field(default_factory=dict)
    """The same where the last answer is preferred."""

    cut_off: list[str] = field(default_factory=list)
    """Places of lines that are not JSON."""

    otherwise: dict[str, str] = field(default_factory=dict)
    """By id: the place of an answer that repeats its request. If no answer fits today's request, this shows that the
    request has changed."""

    settings: dict[str, str] = field(default_factory=dict)
    """By the hash of the settings of `meta-eval run`: the place of the first line that names it."""

    orders: dict[str, str] = field(default_factory=dict)
    """By the hash of the seed of a random order: the first file that names it."""

    second: list[str] = field(default_factory=list)
    """The files of second answers to docs, which change no score."""

    endpoint: list[Mapping[str, Any]] = field(default_factory=list)
    """What each run of `meta-eval run` noted about its endpoint, in the order of lines."""

    deployments: list[frozenset[str]] = field(default_factory=list)
    """Sets of endpoints that a run said to be one deployment."""

    def key(self, request_id: str, request_sha256: str) -> RequestKey:
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
        prefer: ``last`` takes the last of several different answers, in the order of files and lines, and keeps their
            places in ``replaced``. Otherwise these are kept in ``doubled``.
        names: By form: what its `AnswerForm.bind` found.

    Raises:
        AnswersError: A file cannot be read, or a complete line is not an answer.
    """
    answers, forms = Answers(), list_forms()
    unlike = answers.replaced if prefer == "last" else answers.doubled
    hashes: dict[str, list[str | None]] = {}
    for file in files:
        for answer in _read_lines(file, answers, forms, names):
            if answer.request_sha256 is not None:
                answers.otherwise.setdefault(answer.id, answer.where)
            for key in _find_keys(answer, hashes.setdefault(answer.id, []), answers.by_key, answers.failed, unlike):
                if answer.error is not None:
                    answers.failed[key] = answer
                    continue
                first = answers.by_key.get(key)
                if first is not None and not first.has_same_content(answer):
                    unlike.setdefault(key, (first.where, answer.where))
                if first is None or prefer == "last" or answer.key == key != first.key:
                    answers.by_key[key] = answer
    for name in answers.by_key:
        answers.failed.pop(name, None)
    return answers


def _find_keys(answer: Answer, hashes: list[str | None], *found: dict[RequestKey, Any]) -> list[RequestKey]:
    """The keys under which an answer counts: its own, and those that repeat more of the hash of the request.

    Args:
        answer: The answer.
        hashes: Those of its id so far, to which its own is added.
        found: What is known by key. A new key has what those that repeat less of its hash have.
    """
    own = answer.request_sha256
    if own not in hashes:
        less = next((some for some in (own and own[:SHORT], None) if some in hashes), own)
        for known in found:
            if (answer.id, less) in known:
                known[answer.key] = known[answer.id, less]
        hashes.append(own)
    return [(answer.id, some) for some in hashes if own in (None, some, some and some[:SHORT])]


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


def _read_lines(file: Path, answers: Answers, forms: Sequence[AnswerForm], names: Names) -> Iterator[Answer]:
    tools_lost = is_ours = False
    try:
        with open_regular(file) as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_SAMPLE_BYTES + 1), b""), 1):
                where = f"{file}, line {number}"
                if len(line) > MAX_SAMPLE_BYTES:
                    with locating(where):
                        raise make_unread_error(f"it is longer than {MAX_SAMPLE_BYTES >> 20} MiB")
                if number == 1 and (form := describe_form(line[:8])):
                    raise OSError(0, form)
                if not line.strip():
                    continue
                try:
                    content = parse_loose_json(line)
                except ValueError:
                    answers.cut_off.append(where)
                    continue
                if isinstance(content, dict) and content.get("format") == ANSWERS:
                    _read_header(content, str(file), where, answers)
                    is_ours = True
                    lost = reads_tools_lost(note) if isinstance(note := content.get("endpoint"), Mapping) else None
                    tools_lost = tools_lost if lost is None else lost
                    continue
                with locating(where):
                    if not is_ours:
                        _check_names(line)
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


def _check_names(line: bytes) -> None:
    try:
        refuse_repeated_names(line)
    except ValueError as error:
        raise make_unread_error(f"it {error}") from None


def _find_kind(content: object, forms: Sequence[AnswerForm]) -> tuple[AnswerForm, Holding | None]:
    """The form of a line, and what it holds. A line of no form is to be read as our own, which says what is wrong."""
    found = ((form, holding) for form in forms if (holding := form.find_kind(content)) is not None)
    return next(found, (OWN, None))


def _read_header(content: Mapping[str, Any], file: str, where: str, answers: Answers) -> None:
    if (version := content.get("version", VERSION)) != VERSION:
        what = f"is of version {quoted(version)}, and this meta-eval reads version {VERSION}"
        raise AnswersError(what, where=file, hint="pip install --upgrade meta-eval")
    answers.settings.setdefault(str(content.get("settings_sha256")), where)
    if "seed_sha256" in content:
        answers.orders.setdefault(str(content["seed_sha256"]), file)
    if isinstance(content.get("endpoint"), Mapping) and not is_deep(content["endpoint"]):
        answers.endpoint.append(hide_secrets(content["endpoint"]))
    if isinstance(deployment := content.get("deployment"), list):
        answers.deployments.append(frozenset(map(str, deployment)))
    if content.get("rerun"):
        answers.second.append(file)
