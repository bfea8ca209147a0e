"""Asks the docs of a pack alone, at each level, and alone again; and keeps every answer.

Answers of each phase lie in a folder of their own, ``OUTPUT/load/PHASE``, in the files of a run, so that the same
command resumes. Docs are asked greedily whatever their task sets, because sampled answers differ anyway.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.ask.canary import spread_docs
from meta_eval.ask.client import describe_start, find_client
from meta_eval.ask.journal import Journal, read_earlier_answers
from meta_eval.ask.model_tokens import ModelTokens, tokens_of
from meta_eval.ask.pipeline import Interrupted, collect_identity
from meta_eval.ask.request_kinds import build_requests, choose_tasks_to_ask, encode_requests
from meta_eval.ask.request_loop import Pace
from meta_eval.ask.served import counting_saved
from meta_eval.base.hashing import hash_json
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import display_logs, report_progress
from meta_eval.base.outputs import replace_file
from meta_eval.harness.evaluator import Evaluator
from meta_eval.harness.settings import OF_DRAWS
from meta_eval.pack.backends.registry import backend_of
from meta_eval.pack.integrity import check_unchanged
from meta_eval.plugins.load.engine_figures import EngineFigures, Watch, read_engine_figures, wait_until_idle
from meta_eval.plugins.load.options import LoadOptions
from meta_eval.plugins.load.signs import ScoredSign
from meta_eval.plugins.load.thresholds import SAME_DOCS, SCORED_ALONE
from meta_eval.plugins.load.traffic import Traffic
from meta_eval.sockets import (
    Answer,
    BackendError,
    ConfigError,
    DataError,
    LogEntry,
    Manifest,
    Request,
    RunSettings,
    ServersClient,
    log,
    parse_json,
    plural,
    read_manifest,
    read_regular,
)

if TYPE_CHECKING:
    from meta_eval.harness.token_logprobs import TokenLogprobs

_FOLDER = "load"
ALONE, AGAIN = "alone", "alone-again"

LoadDoc = tuple[str, int]
Decode = Callable[[Sequence[int]], str]


@dataclass(slots=True)
class Phase:
    """What was asked at one level, or alone."""

    name: str
    """``alone``, ``alone-again`` or ``at-N``."""

    level: int
    """Requests in flight at each server."""

    answers: dict[LoadDoc, Answer] = field(default_factory=dict)
    """By doc its answer; one with an error where there is none."""

    figures: list[EngineFigures] = field(default_factory=list)
    """What the engine said meanwhile."""

    traffic: dict[str, int] = field(default_factory=dict)
    """What became of the made-up requests: ``begun``, ``answered``, ``given_up``, ``failed``."""


@dataclass(slots=True)
class LoadRun:
    """Everything that was asked."""

    pack: Path
    """The pack."""

    folder: Path
    """Where the answers are."""

    requests: dict[LoadDoc, Request]
    """By doc its request, as it was sent."""

    originals: dict[LoadDoc, list[Request]]
    """By doc the requests of the pack, whose graders grade the answers."""

    alone: Phase
    again: Phase
    levels: list[Phase]
    """The levels, in ascending order."""

    scored: dict[str, ScoredSign] = field(default_factory=dict)
    """By the hash of the request that scored a text, how likely its tokens are."""

    not_scored: str | None = None
    """Why answers are not scored; None if they are."""

    engine: str = ""
    """The engine; empty if nothing was asked."""

    seed: str = ""
    """Of the made-up requests."""


class Asking:
    """Asks phases, and resumes them.

    Args:
        pack: The folder that prepare wrote.
        settings: Model and server.
        options: What is asked.

    Raises:
        UserError: Anything that the user can fix.
    """

    def __init__(self, pack: Path, settings: RunSettings, options: LoadOptions) -> None:
        self._settings, self._options = settings, options
        self._manifest = read_manifest(pack)
        check_unchanged(pack, self._manifest, edited=options.edited)
        self._client_class = _find_servers_client(settings)
        self._tokens: ModelTokens | None = None
        originals = _choose_requests(pack, self._manifest, settings, options)
        if not originals:
            raise ConfigError("no task of it is answered with texts", where=str(pack), hint="Name other --tasks")
        requests = {doc: _make_greedy(some[0], options.max_tokens) for doc, some in originals.items()}
        folder = expand_home(str(options.output or settings.output_path), where="output_path") / _FOLDER
        seed = hash_json([sorted(request.sha256 for request in requests.values())])[:16]
        alone, again = Phase(ALONE, options.alone), Phase(AGAIN, options.alone)
        self.run = LoadRun(pack, folder, requests, originals, alone, again, [], seed=seed)
        self._client: ServersClient[Any] | None = None
        # Seconds that a server may work on requests that were given up; 0 if none were.
        self._busy_s = 0.0

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._client is not None:
            self._client.__exit__(*error)

    def ask_all(self, levels: Sequence[int]) -> None:
        """Ask alone, at each level, and alone again.

        Raises:
            UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
            Interrupted: By Ctrl-C; likewise.
        """
        run = self.run
        phases = [run.alone, *(Phase(f"at-{level}", level) for level in sorted(levels)), run.again]
        for phase in phases:
            self._read(phase)
        left = [phase for phase in phases if self._list_left(phase)]
        if left and self._options.ask:
            self._say_budget(left)
        began = time.monotonic()
        for phase in phases:
            fresh = len(self._list_left(phase))
            self._ask(phase)
            if phase is run.alone and fresh == len(run.requests) and self._options.ask and len(left) > 1:
                minutes = (time.monotonic() - began) / 60
                rounds = plural(len(left) - 1, "more round")
                took = f"{minutes:.1f} min" if minutes >= 1 else f"{60 * minutes:.0f} s"
                report_progress(f"alone, the docs took {took}; {rounds} of the same docs follow")
        if not run.alone.answers:
            raise DataError(
                "no answer is there yet", where=str(run.folder), hint="Leave out --no-ask, or name the right --output"
            )
        run.levels = [phase for phase in phases[1:-1] if phase.answers]

    def ask_level(self, level: int) -> Phase:
        """Ask one level more; errors as of `ask_all`."""
        phase = Phase(f"at-{level}", level)
        self._read(phase)
        self._ask(phase)
        self.run.levels = sorted([*self.run.levels, phase], key=lambda other: other.level)
        return phase

    def score(self, phases: Iterable[Phase]) -> None:
        """Have the answers that parted from those alone scored by the same server, alone; and some of those alone.

        Errors as of `ask_all`. Where the server scores no texts, `LoadRun.not_scored` says why.
        """
        run = self.run
        wanted: dict[str, tuple[Request, str]] = {}
        alone = [doc for doc, answer in sorted(run.alone.answers.items()) if answer.text][:SCORED_ALONE]
        for doc in alone:
            self._want(wanted, doc, run.alone.answers[doc])
        for phase in phases:
            for doc, answer in phase.answers.items():
                beside = (run.alone,) if phase is run.again else (run.alone, run.again)
                same = {other.answers[doc].text for other in beside if doc in other.answers}
                if answer.error is None and answer.text and answer.text not in same:
                    self._want(wanted, doc, answer)
        if "force" not in backend_of(self._settings).kinds:
            run.not_scored = f"backend {self._settings.backend} scores no texts"
            return
        with self._open(run.folder / "scored") as journal:
            kept = {key[1]: answer for key, answer in self._earlier(journal).items()}
            left = [request for sha256, (request, _) in wanted.items() if sha256 not in kept]
            if left and self._options.ask:
                client, tokens = self._start()
                why = client.cannot("force", has_tokenizer=tokens.encoder is not None)
                if why:
                    run.not_scored = why
                    log.warning(f"answers that part are not scored: {why}")
                    return
                report_progress(f"scoring {plural(len(left), 'answer')}")
                client.settings = self._settings.model_copy(update={"concurrency": self._options.alone})
                for answer in client.answer(encode_requests(left, tokens.encoder)):
                    journal.add(answer, engine=client.engine)
                    kept[str(answer.request_sha256)] = answer
            if wanted and not any(answer.tokens for answer in kept.values()):
                run.not_scored = "the server scored none of them"
            decode = self._make_decoder() if wanted and run.not_scored is None else None
            for sha256, (_, text) in wanted.items():
                tokens_of_text = kept[sha256].tokens if sha256 in kept else None
                if tokens_of_text is not None and decode is not None:
                    run.scored[sha256] = measure(tokens_of_text, text, decode)

    def find_scored(self, doc: LoadDoc, answer: Answer) -> ScoredSign | None:
        """How likely the tokens of an answer are; None if it was not scored."""
        if not answer.text:
            return None
        return self.run.scored.get(_make_forced(self.run.requests[doc], answer.text).sha256)

    def _want(self, wanted: dict[str, tuple[Request, str]], doc: LoadDoc, answer: Answer) -> None:
        request = _make_forced(self.run.requests[doc], answer.text or "")
        wanted[request.sha256] = (request, answer.text or "")

    def _make_decoder(self) -> Decode | None:
        from meta_eval.pack.prompt_lengths import find_tokenizer

        tokenizer = find_tokenizer(self._settings.tokenizer_of(self._settings.model_name))
        if tokenizer is None:
            self.run.not_scored = "the tokenizer is not on this machine"
            return None
        return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))

    def _open(self, folder: Path) -> Journal:
        return Journal(folder, self._settings.model_name, collect_identity(self._settings))

    def _earlier(self, journal: Journal) -> Mapping[Any, Answer]:
        options = self._options
        with display_logs(lambda *_: None):
            return read_earlier_answers(
                journal,
                self._settings,
                asks=options.ask,
                same=options.same_deployment,
                folder_option="--output FOLDER",
            ).by_key

    def _read(self, phase: Phase) -> None:
        """Read what is answered already."""
        folder = self.run.folder / phase.name
        if not self._options.ask and not folder.is_dir():
            return
        with self._open(folder) as journal:
            earlier = self._earlier(journal)
        for doc, request in self.run.requests.items():
            if (answer := earlier.get(request.key)) is not None:
                phase.answers[doc] = answer
        phase.traffic, phase.figures = _read_facts(folder)

    def _list_left(self, phase: Phase) -> list[LoadDoc]:
        return [doc for doc in self.run.requests if doc not in phase.answers]

    def _ask(self, phase: Phase) -> None:
        left = self._list_left(phase)
        if not left or not self._options.ask:
            return
        client, tokens = self._start()
        if phase is self.run.again and self._busy_s and not wait_until_idle(client, self._busy_s):
            log.warning("the server still has requests: alone again is not alone")
        # In a random order, so that who is in flight with whom says nothing of their texts.
        random.Random(f"{self.run.seed} {phase.name}").shuffle(left)  # noqa: S311 (no secret)
        is_level = phase.name not in (ALONE, AGAIN)
        made_up = math.floor(phase.level * self._options.traffic) if is_level and not self._is_limited() else 0
        report_progress(f"asking {plural(len(left), 'doc')}, {phase.level:,} in flight" if is_level else
                        f"asking {plural(len(left), 'doc')} alone")  # fmt: skip
        client.settings = self._settings.model_copy(update={"concurrency": phase.level - made_up})
        kind = "chat" if backend_of(self._settings).renders_messages else "generate"
        traffic = Traffic(client, kind, tokens.encoder, made_up, self._options.abort, f"{self.run.seed} {phase.level}")
        pace, saved = Pace(_count_tasks(left), {}), len(phase.answers)
        folder = self.run.folder / phase.name
        with self._open(folder) as journal, counting_saved(lambda: (len(phase.answers), len(self.run.requests))):
            try:
                with Watch(client) as watch, traffic:
                    requests = (self.run.requests[doc] for doc in left)
                    for answer in client.answer(encode_requests(requests, tokens.encoder)):
                        journal.add(answer, engine=client.engine)
                        phase.answers[answer.task, answer.doc] = answer
                        pace.add(answer)
            except KeyboardInterrupt:
                raise Interrupted(len(phase.answers) - saved, len(left)) from None
            finally:
                phase.figures += watch.figures
                before = phase.traffic
                phase.traffic = {name: before.get(name, 0) + number for name, number in asdict(traffic.counted).items()}
                spans = [answer.span[1] - answer.span[0] for answer in phase.answers.values() if answer.span]
                self._busy_s = max(self._busy_s, traffic.slowest, *spans) if made_up else self._busy_s
                # Each call draws the same prompts from the first on.
                phase.traffic["begun"] = max(traffic.counted.begun, before.get("begun", 0))
                _write_facts(folder, phase)

    def _is_limited(self) -> bool:
        """Whether the user limits requests: then nothing is made up beside them."""
        return self._settings.requests_per_minute is not None or self._settings.tokens_per_minute is not None

    def _start(self) -> tuple[ServersClient[Any], ModelTokens]:
        """The client, started at the first request."""
        settings, model = self._settings, self._settings.model_name
        if self._tokens is None:
            backend = backend_of(settings)
            if backend.renders_messages or (backend.reads_text and settings.tokenizer is None):
                self._tokens = ModelTokens(None, None)
            else:
                report_progress(f"reading the tokenizer of {model}")
                self._tokens = tokens_of(
                    settings.tokenizer_of(model), needed=backend.needs_token_ids, needs_bos=self._manifest.needs_bos,
                    add_bos=settings.add_bos_token,
                )  # fmt: skip
        if self._client is None:
            logs = self.run.folder / "logs"
            report_progress(describe_start(settings, logs))
            client = self._client_class(settings, model=model, logs=logs, end=self._tokens.ends)
            self._client = client.__enter__()
            self.run.engine = self._client.engine
        return self._client, self._tokens

    def _say_budget(self, phases: Sequence[Phase]) -> None:
        """Say before the first request how many there will be, and how many tokens at most."""
        left = [doc for phase in phases for doc in self._list_left(phase)]
        tokens = sum(self.run.requests[doc].max_tokens for doc in left)
        characters = sum(len(self.run.requests[doc].prompt) for doc in left)
        levels = ", ".join(f"{phase.level:,}" for phase in phases if phase.name not in (ALONE, AGAIN))
        beside = "" if not self._options.traffic or self._is_limited() else ", and made-up requests beside them"
        at = f" and at {levels} in flight" if levels else ""
        report_progress(
            f"{plural(len(self.run.requests), 'doc')} alone{at}: {plural(len(left), 'request')}, about "
            f"{round(characters / 4, -3):,.0f} tokens of prompts, at most {tokens:,} tokens of answers{beside}"
        )
        if len(self.run.requests) < SAME_DOCS:
            report_progress(f"so few docs can show a fault, but not its absence: that takes {SAME_DOCS} docs or more")


def measure(tokens: TokenLogprobs, text: str, decode: Decode) -> ScoredSign:
    """The token of an answer that is furthest below the likeliest one.

    A text may have other tokens than the server wrote: a place counts only if the text does not also fit the likeliest
    token there, and neither do the next two, which follow another token than was written. The last token is left out,
    as a stop text or a limit may have cut it.

    Args:
        tokens: What the server says of the text.
        text: The text.
        decode: Makes a text of tokens.
    """
    ids, top = list(tokens.ids), list(tokens.top_ids)
    distances = [max(0.0, best - own) for best, own in zip(tokens.top_logprobs, tokens.logprobs, strict=True)]
    skipped: set[int] = {len(ids) - 1}
    for at, (own, likeliest) in enumerate(zip(ids, top, strict=True)):
        if own != likeliest and distances[at] > 0:
            words = decode([likeliest]) if likeliest >= 0 else ""
            rest = decode(ids[at : at + 4 + len(words)])
            if words and rest.startswith(words):
                skipped |= {at, at + 1, at + 2}
    places = [at for at in range(len(ids)) if at not in skipped]
    worst = max(places, key=lambda at: distances[at], default=None)
    if worst is None:
        return ScoredSign(0.0, 0)
    return ScoredSign(distances[worst], min(len(text), len(decode(ids[:worst]))))


def _make_forced(request: Request, text: str) -> Request:
    return replace(
        request, id=f"{request.task}/{request.doc}", kind="force", stop=(), max_tokens=0, settings=None,
        continuations=(text,),
    )  # fmt: skip


def _make_greedy(request: Request, most: int | None) -> Request:
    limit = request.max_tokens if most is None else min(most, request.max_tokens)
    settings = request.settings
    if request.is_sampled:
        settings = {name: value for name, value in (settings or {}).items() if name not in OF_DRAWS | {"seed"}}
    own_id = f"{request.task}/{request.doc}"
    return replace(request, id=own_id, repeat=0, max_tokens=limit, settings=settings)


def _choose_requests(
    pack: Path, manifest: Manifest, settings: RunSettings, options: LoadOptions
) -> dict[LoadDoc, list[Request]]:
    """By doc its requests, of docs spread over the tasks that are answered with texts."""
    kinds = backend_of(settings).kinds
    evaluator, found, left_out = Evaluator(pack), dict[str, list[Request]](), list[str]()
    for name in choose_tasks_to_ask(manifest, options.tasks):
        requests = list(build_requests(evaluator, name, settings.limit))
        if requests and requests[0].kind in ("generate", "chat") and requests[0].kind in kinds:
            found[name] = requests
        else:
            left_out.append(name)
    if left_out:
        log.warning(f"{', '.join(left_out)}: left out, because load compares texts of one kind")
    kind = next(iter(found.values()))[0].kind if found else ""
    found = {name: requests for name, requests in found.items() if requests[0].kind == kind}
    numbers = {name: max(request.doc for request in requests) + 1 for name, requests in found.items()}
    there = {name: {request.doc for request in requests} for name, requests in found.items()}
    chosen = spread_docs(
        {name: ["" if doc in there[name] else None for doc in range(count)] for name, count in numbers.items()},
        options.docs,
    )
    docs: dict[LoadDoc, list[Request]] = {}
    for name, some in chosen.items():
        wanted = set(some)
        for request in found[name]:
            if request.doc in wanted:
                docs.setdefault((name, request.doc), []).append(request)
    return docs


def _find_servers_client(settings: RunSettings) -> type[ServersClient[Any]]:
    """The client of a backend, which must ask servers.

    Raises:
        BackendError: It does not.
    """
    client = find_client(settings)
    if not issubclass(client, ServersClient):
        raise BackendError(
            f"{settings.backend} asks no server, and load needs one that many ask at once", where="backend",
            hint="Start a server, and set backend=server and base_url",
        )  # fmt: skip
    return client


def _count_tasks(docs: Iterable[LoadDoc]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for task, _ in docs:
        counts[task] = counts.get(task, 0) + 1
    return counts


_FACTS = "engine.json"


def _write_facts(folder: Path, phase: Phase) -> None:
    with replace_file(folder / _FACTS) as file:
        file.write(json.dumps({"traffic": phase.traffic, "figures": [asdict(figures) for figures in phase.figures]}))


def _read_facts(folder: Path) -> tuple[dict[str, int], list[EngineFigures]]:
    """What was kept of an earlier call; nothing where it cannot be read."""
    try:
        kept = LogEntry.of(parse_json(read_regular(folder / _FACTS)), _FACTS)
        traffic = kept.find_entry("traffic")
        counts = {name: count for name in traffic.tree if (count := traffic.find_count(name)) is not None}
        return counts, [read_engine_figures(figures) for figures in kept.find_entries("figures")]
    except (OSError, ValueError, DataError):
        return {}, []
