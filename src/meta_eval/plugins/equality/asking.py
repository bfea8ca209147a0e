"""Asks two endpoints the prompts of a pack in one random order, several times each, and keeps every answer.

The answers lie in ``OUTPUT/equality/a`` and ``OUTPUT/equality/b``, in the files of a run, so that the same command
resumes. Each request has a seed of its own. Two requests with one seed would be answered alike by two engines with the
same weights, and two prompts with one seed would be drawn with the same chance: neither are independent samples.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from meta_eval.ask.canary import spread_docs
from meta_eval.ask.client import describe_start, find_client
from meta_eval.ask.journal import Journal, read_earlier_answers
from meta_eval.ask.pipeline import Interrupted, collect_identity, find_pack
from meta_eval.ask.request_kinds import build_requests, choose_tasks_to_ask
from meta_eval.ask.served import counting_saved
from meta_eval.ask.servers_client import read_key
from meta_eval.base.hashing import hash_json, normalise_url
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import display_logs, report_progress
from meta_eval.base.pack_names import join_names
from meta_eval.base.secrets import redact_secrets
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.provenance import merge_endpoint_notes
from meta_eval.harness.settings import OF_DRAWS, SAMPLING
from meta_eval.pack.backends.registry import backend_of
from meta_eval.pack.config.config_loader import override_settings
from meta_eval.pack.integrity import check_unchanged
from meta_eval.plugins.equality.options import EqualityOptions
from meta_eval.plugins.equality.sides import PromptKey, Side, say
from meta_eval.reports.text import format_cost
from meta_eval.sockets import (
    Answer,
    BackendError,
    ConfigError,
    DataError,
    Manifest,
    Request,
    RunSettings,
    ServersClient,
    log,
    plural,
    read_manifest,
)

_FOLDER = "equality"
# Fields of a chat request that would take the place of the settings of this test.
_OF_BODY = OF_DRAWS | {"seed", "n", "max_tokens", "max_completion_tokens", "stream", "stream_options", "logprobs"}
_CHARACTERS_PER_TOKEN = 4


@dataclass(slots=True)
class _Asked:
    """One side: what is asked of it, and what it answered."""

    label: str
    settings: RunSettings
    folder: Path
    requests: list[Request]
    answers: dict[str, Answer]
    """By the id of a request; one with an error where there is none."""

    client: ServersClient[Any] | None = None

    def list_left(self) -> list[Request]:
        return [request for request in self.requests if request.id not in self.answers]


def ask_sides(config: Any, options: EqualityOptions) -> tuple[Side, Side]:
    """Ask two addresses, and read what they answered before.

    Args:
        config: As of `find_pack`.
        options: What is asked.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    pack, base = find_pack(options.pack, config, options.overrides, edited=options.edited)
    manifest = read_manifest(pack)
    check_unchanged(pack, manifest, edited=options.edited)
    own_key = any(override.partition("=")[0].strip() == "api_key_env" for override in options.overrides_b)
    both = {
        label: override_settings(base, [*options.overrides, *own, "serve=false", f"base_url={json.dumps(place)}"])
        for label, own, place in (("A", (), options.a), ("B", options.overrides_b, options.b))
    }
    _check_key(options, both["B"], own_key=own_key)
    for settings in both.values():
        _find_servers_client(settings)
    _check_sampling(*both.values())
    docs = _choose_docs(pack, manifest, base, list(both.values()), options)
    output = expand_home(str(options.output or base.output_path), where="output_path") / _FOLDER
    sides = [
        _Asked(label, settings, output / label.lower(), _make_requests(docs, label, options), {})
        for label, settings in both.items()
    ]
    for side in sides:
        if not options.ask and not side.folder.is_dir():
            raise _make_unasked_error(side)
    with ExitStack() as stack:
        journals = [
            stack.enter_context(Journal(side.folder, side.settings.model_name, collect_identity(side.settings)))
            for side in sides
        ]
        for side, journal in zip(sides, journals, strict=True):
            side.answers = _read_earlier(side, journal, options)
            if not options.ask and not side.answers:
                raise _make_unasked_error(side)
        if options.ask and any(side.list_left() for side in sides):
            _say_price(sides, options)
            _ask(sides, journals, stack)
        notes = [_list_notes(side, journal) for side, journal in zip(sides, journals, strict=True)]
    a, b = (_collect(side, some) for side, some in zip(sides, notes, strict=True))
    return a, b


def _make_unasked_error(side: _Asked) -> DataError:
    return DataError(
        f"no answer of {side.label} is there yet", where=str(side.folder),
        hint="Leave out --no-ask, or name the --output, --samples and --max-tokens of the answers",
    )  # fmt: skip


def _check_key(options: EqualityOptions, settings: RunSettings, *, own_key: bool) -> None:
    """Refuse to send A's key to another server, unless the user says so."""
    hosts = [
        (url.scheme, url.netloc.rpartition("@")[2]) for url in map(urlsplit, map(normalise_url, (options.a, options.b)))
    ]
    if options.ask and hosts[0] != hosts[1] and not own_key and read_key(settings.api_key_env) is not None:
        raise ConfigError(
            f"is another server than A, and the key in {settings.api_key_env} would go to both", where="B",
            hint="Add --set-b api_key_env=NAME of its own key, or of the same one",
        )  # fmt: skip


def _check_sampling(a: RunSettings, b: RunSettings) -> None:
    """Refuse fields of requests that take the place of this test's own, and sampling that differs between the sides."""
    for name in sorted(_OF_BODY.union(SAMPLING)):
        first, second = a.model_args.get(name), b.model_args.get(name)
        if first != second or (first is not None and name in _OF_BODY - {"top_k", "min_p"}):
            raise ConfigError(
                f"{name} is {first} for A and {second} for B", where="model_args",
                hint="Leave out what this test sets itself, and set other sampling options alike on both",
            )  # fmt: skip


def _find_servers_client(settings: RunSettings) -> type[ServersClient[Any]]:
    client = find_client(settings)
    if not issubclass(client, ServersClient):
        raise BackendError(
            f"{settings.backend} asks no address",
            where="backend",
            hint="Add --set backend=server or --set backend=chat",
        )
    return client


def _choose_docs(
    pack: Path, manifest: Manifest, base: RunSettings, both: Sequence[RunSettings], options: EqualityOptions
) -> list[Request]:
    """The first request of each chosen doc, of docs spread over the tasks that both can answer with texts."""
    kinds = {"generate", "chat"}.intersection(*(backend_of(settings).kinds for settings in both))
    evaluator, found, left_out = Evaluator(pack), dict[str, dict[int, Request]](), list[str]()
    for name in choose_tasks_to_ask(manifest, options.tasks):
        requests: dict[int, Request] = {}
        for request in build_requests(evaluator, name, base.limit):
            requests.setdefault(request.doc, request)
        if requests and next(iter(requests.values())).kind in kinds:
            found[name] = requests
        else:
            left_out.append(name)
    if left_out:
        log.warning(f"{', '.join(left_out)}: left out, because equality compares texts")
    if not found:
        raise ConfigError("no task of it is answered with texts", where=str(pack), hint="Name other --tasks")
    chosen = spread_docs(
        {name: ["" if doc in docs else None for doc in range(max(docs) + 1)] for name, docs in found.items()},
        options.prompts,
    )
    return [found[name][doc] for name, docs in chosen.items() for doc in docs]


def _make_requests(docs: Iterable[Request], label: str, options: EqualityOptions) -> list[Request]:
    """The requests of a side: each doc several times, sampled at temperature 1, with a seed each."""
    requests = []
    for request in docs:
        kept = {name: value for name, value in (request.settings or {}).items() if name not in OF_DRAWS | {"seed"}}
        prompt = request.prompt
        if request.kind == "chat":
            body = json.loads(prompt)
            prompt = json.dumps({name: value for name, value in body.items() if name not in _OF_BODY})
        seed = int(hash_json([label, request.task, request.doc, request.prompt_sha256])[:7], 16)
        settings = {**kept, "do_sample": True, "temperature": 1.0, "top_p": 1.0, "seed": seed}
        requests += [
            replace(
                request, id=f"{request.task}/{request.doc}/{number}", repeat=number, prompt=prompt,
                max_tokens=options.max_tokens, settings=settings,
            )
            for number in range(options.samples)
        ]  # fmt: skip
    return requests


def _read_earlier(side: _Asked, journal: Journal, options: EqualityOptions) -> dict[str, Answer]:
    with display_logs(lambda *_: None):
        earlier = read_earlier_answers(
            journal, side.settings, asks=options.ask, same=options.same_deployment, folder_option="--output FOLDER"
        ).by_key
    return {request.id: earlier[request.key] for request in side.requests if request.key in earlier}


def _say_price(sides: Sequence[_Asked], options: EqualityOptions) -> None:
    """Say before the first request how many there will be, how many tokens at most, and what that costs."""
    report_progress(
        f"{plural(options.prompts, 'prompt')} at most, {options.samples} answers of each side to each, of at most "
        f"{options.max_tokens} tokens"
    )
    for side in sides:
        left = side.list_left()
        prompts = sum(len(request.prompt) for request in left) / _CHARACTERS_PER_TOKEN
        tokens = sum(request.max_tokens for request in left)
        prices = side.settings.price_per_million_tokens
        most = None if prices is None else (prompts * prices.prompt + tokens * prices.completion) / 1e6
        cost = "" if most is None else f", at most {format_cost(most)} at your prices"
        report_progress(
            f"{side.label}: {plural(len(left), 'request')}, about {round(prompts, -2):,.0f} tokens of prompts, at most "
            f"{tokens:,} tokens of answers{cost}"
        )


def _ask(sides: Sequence[_Asked], journals: Sequence[Journal], stack: ExitStack) -> None:
    """Ask in one random order. The faster side waits for the slower one, so that both are asked in the same minutes."""
    places = [side for side in range(2) for _ in sides[side].list_left()]
    seed = hash_json([sorted(request.sha256 for request in side.requests) for side in sides])
    rng, total, kept = random.Random(seed), sum(len(side.requests) for side in sides), 0  # noqa: S311 (no secret)
    rng.shuffle(places)
    running: dict[int, Generator[Answer]] = {}
    for number in sorted(set(places)):
        side = sides[number]
        logs, left = side.folder / "logs", side.list_left()
        report_progress(f"{side.label}: {describe_start(side.settings, logs)}")
        client = _find_servers_client(side.settings)(side.settings, model=side.settings.model_name, logs=logs)
        side.client = stack.enter_context(client)
        rng.shuffle(left)
        running[number] = stack.enter_context(closing(side.client.answer(left)))  # type: ignore[arg-type]
    report_progress("asking both in one random order")

    def count() -> tuple[int, int]:
        return sum(len(side.answers) for side in sides), total

    with counting_saved(count):
        try:
            for number in places:
                _keep(next(running[number]), sides[number], journals[number])
                kept += 1
                report_progress("asking both in one random order", kept, len(places))
        except KeyboardInterrupt:
            for number, answers in running.items():  # what the faster side has answered already
                with suppress(KeyboardInterrupt):
                    _keep(answers.throw(KeyboardInterrupt), sides[number], journals[number])
                    for answer in answers:
                        _keep(answer, sides[number], journals[number])
            raise Interrupted(*count()) from None


def _keep(answer: Answer, side: _Asked, journal: Journal) -> None:
    assert side.client is not None  # noqa: S101 (it was started)
    journal.add(answer, engine=side.client.engine)
    side.answers[answer.id] = answer


def _list_notes(side: _Asked, journal: Journal) -> list[str]:
    """What the endpoint did otherwise than it was asked to, in this command or an earlier one."""
    if side.client is not None and (seen := side.client.summarise()):
        journal.note(endpoint=seen)
    omitted: Mapping[str, str] = merge_endpoint_notes(journal.read().endpoint).get("omitted", {})
    return [f"{side.label} does not accept {name}: it was left out of its requests" for name in sorted(omitted)]


def _collect(side: _Asked, notes: Sequence[str]) -> Side:
    engines = sorted({answer.engine for answer in side.answers.values() if answer.engine})
    url = redact_secrets(", ".join(side.settings.base_url))
    if side.client is not None:
        engines = [side.client.engine]
    model = side.settings.model_name
    found = Side(side.label, model, url, ", ".join(engines), wanted=len(side.requests), notes=[*notes])
    spans, errors = [], []
    for request in side.requests:
        answer = side.answers.get(request.id)
        if answer is None or answer.error is not None:
            errors += [answer.error] if answer is not None and answer.error else []
            continue
        key: PromptKey = (request.task, f"{request.doc:09}")
        found.add(key, f"{request.task}/{request.doc}", request.repeat, say(answer))
        found.cut += answer.finish_reason == "length"
        spans += [answer.started] if answer.started is not None else []
    if errors:
        found.error = errors[0]
        found.notes.append(f"{plural(len(errors), 'request')} to {side.label} failed; the first: {errors[0]}")
    named = sorted({answer.response_model for answer in side.answers.values() if answer.response_model})
    if others := [name for name in named if name != model]:
        found.notes.append(f"{side.label} was asked for {model}, and its answers name {join_names(others)}")
    found.times = (min(spans), max(spans)) if spans else None
    return found
