"""run: prepare if it is needed, check, ask what has no answer yet, grade.

The story of one request: it is built by lm-eval's task (`answers.requests`), found to have no answer (`wanted`), given
its tokens (`tokens`), asked (`client`), kept (`journal`), and graded with all others of its task (`answers.grade`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.answers.grading import Graded, Grading
from meta_eval.answers.recorded_answers import Recordings
from meta_eval.answers.requests import Request
from meta_eval.backends.base import Backend
from meta_eval.backends.registry import backend_of
from meta_eval.backends.settings import RunSettings, Settings
from meta_eval.config import Config
from meta_eval.judging.gate import Gate
from meta_eval.messages.errors import ConfigError, UserError
from meta_eval.messages.logs import log, report_progress
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import MANIFEST, Manifest, read_manifest
from meta_eval.pack.prompt_lengths import find_tokenizer_file
from meta_eval.running.canary import Canary, Summary, check_token_counts
from meta_eval.running.canary_docs import choose_first_requests
from meta_eval.running.client import Client, EngineRequest, EngineResponse, client_of, with_token_ids
from meta_eval.running.early_stop import Stopping
from meta_eval.running.journal import Journal, check_shard, model_fingerprint
from meta_eval.running.model_tokens import ModelTokens, tokens_of
from meta_eval.running.pending_requests import PendingRequests, leave_out_tasks, select_answers
from meta_eval.running.retry_rounds import ask_in_rounds
from meta_eval.running.time_left import Pace, expected_tokens
from meta_eval.stats.sequential import State
from meta_eval.verb_options import RunOptions

# What of the settings may change from run to run: where results go, how many requests at a time, on how many copies, at
# which address. No answer depends on it, or only as on the weather in a data centre.
_FREE = frozenset(
    (
        "base_url", "batch_size", "concurrency", "data_parallel_size", "gpu_memory_utilization", "log_samples",
        "margin", "output_path", "price_per_hour", "ray_address", "request_timeout", "retries", "serve", "show_config",
        "verbosity", "weights",
    )
)  # fmt: skip

# Which docs are asked is the pack's; an answer is the same.
_NO_MATTER = _FREE | {"limit"}

# What only the pack says, and no answer depends on.
_OF_PACK = frozenset(("tasks", "include_path", "runs_code"))

# Called with a task that is answered whole and its scores, 0 to 1 by ``metric,filter``.
Scored = Callable[[str, dict[str, float]], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while requests were asked; ``kept`` answers of ``total`` are on the disk."""

    def __init__(self, kept: int, total: int) -> None:
        super().__init__()
        self.kept, self.total = kept, total


@dataclass(slots=True)
class RunResult:
    """What a run came to.

    Attributes:
        pack: The folder of the pack.
        answers: The files of answers, those of all shards.
        engine: What answered; None where there was nothing to ask.
        before: Requests that were answered when it began.
        asked: Requests that it asked.
        failed: Requests whose every attempt failed.
        canary: What the first answers showed; None where there were none.
        left_out: The tasks that the engine cannot answer, each with the reason.
        unanswered: Where nothing was to be asked, by task the requests that have no answer.
        graded: Scores and the results file; None of a shard, which somebody grades when all are done.
        stopped: What was shown when it ended, of a run that stops when it is decided.
    """

    pack: Path
    answers: list[Path] = field(default_factory=list)
    engine: str | None = None
    before: int = 0
    asked: int = 0
    failed: int = 0
    canary: Summary | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    unanswered: dict[str, int] = field(default_factory=dict)
    graded: Graded | None = None
    stopped: State | None = None


def run_pack(
    config: Config,
    options: RunOptions,
    *,
    model: str | None = None,
    config_place: str = "the configuration",
    baseline: bool = False,
    scored: Scored | None = None,
) -> RunResult:
    """Ask a model what a pack asks, and grade its answers.

    Args:
        config: What to evaluate and how. A pack that lies in its work_dir and is of the same settings is used as it is.
        options: What is asked, and how it is graded.
        model: Which of the configuration's models is asked; None for the first. All are asked what one pack asks.
        config_place: Where it was written, for messages.
        baseline: Grade the recorded answers as well, where `verify` has not: report compares the run with them.
        scored: Called with each task that is answered whole; it is then graded at once, and with all others again.

    Raises:
        UserError: Anything that the user can fix. What was answered before is kept, and the same again goes on.
        Interrupted: By Ctrl-C; likewise.
    """
    check_shard(options.shard)
    shard, grade_only = options.shard, options.grade_only
    pack = prepare_pack(config, config_place, edited=options.edited)
    manifest = read_manifest(pack)
    settings = settings_of(manifest, config)
    if model is not None:
        settings = settings.model_copy(update={"model_name": model})
    grading = Grading(pack, options)
    model, output = settings.model_name, Path(settings.output_path).expanduser()
    backend = backend_of(settings)
    if not grade_only and (backend.reads_text or find_tokenizer_file(settings.tokenizer_of(model)) is None):
        backend.check_installed(settings)
    tokens = _tokens(model, backend, settings, manifest, grade_only=grade_only)
    logs = output / "answers" / "logs"
    if shard[1] > 1:  # one file of several machines would be of none
        logs = logs / f"{shard[0]}-of-{shard[1]}"
    with Journal(output / "answers", model, collect_identity(settings), shard) as journal:
        report_progress("looking for what is not answered yet")
        wanted = PendingRequests(
            grading.evaluator, grading.tasks, settings.limit, shard, journal.read(), lanes=len(settings.base_url)
        )
        stopping = _stopping(pack, manifest, grading, wanted, shard, settings) if options.stop_when_decided else None
        done = RunResult(pack, before=sum(wanted.total.values()) - sum(wanted.left.values()))
        done.left_out = {} if grade_only else leave_out_tasks(wanted, backend, whole=options.stop_when_decided)
        if grade_only:
            done.unanswered = {name: left for name, left in wanted.left.items() if left}
        elif any(wanted.left.values()):
            report_progress(f"starting {settings.backend}; its log: {logs}")
            with client_of(settings)(settings, model=model, logs=logs, end=tokens.ends) as client:
                done.engine = client.engine
                done.left_out |= leave_out_tasks(
                    wanted, backend, client, has_tokenizer=tokens.encoder is not None, whole=options.stop_when_decided
                )
                expected = {name: expected_tokens(pack, manifest, name) for name in wanted.left}
                recordings = Recordings(pack, manifest) if options.canary else None
                asking = _Asking(client, journal, tokens, wanted, Pace(wanted.left, expected), recordings)
                try:
                    for name in asking.first():
                        _tell(name, grading, journal, wanted, scored, shard)
                    if stopping is not None:
                        done.stopped = asking.until_decided(stopping)
                    else:
                        for name in asking.run(wanted):
                            _tell(name, grading, journal, wanted, scored, shard)
                except KeyboardInterrupt:
                    raise Interrupted(done.before + asking.asked, sum(wanted.total.values())) from None
            done.asked, done.failed, done.canary = asking.asked, asking.failed, asking.canary
        done.answers = journal.files()
        if shard[1] == 1:
            report_progress("grading")
            done.graded = grading.grade(
                select_answers(journal.read(), wanted.hashes()), output=output, partial=True,
                price_per_hour=settings.price_per_hour, stopped=_stopped(done.stopped, stopping), go_on=True,
            )  # fmt: skip
            if baseline:
                _make_baseline(pack, grading)
    return done


def _tokens(
    model: str, backend: Backend, settings: RunSettings, manifest: Manifest, *, grade_only: bool
) -> ModelTokens:
    if backend.reads_text:
        return ModelTokens(None, None)
    report_progress(f"reading the tokenizer of {model}")
    return tokens_of(
        settings.tokenizer_of(model),
        needed=backend.needs_token_ids and not grade_only,
        needs_bos=manifest.needs_bos,
        add_bos=settings.add_bos_token,
    )


class _Asking:
    """Everything that is wanted, asked in rounds until it is answered or has failed for good."""

    def __init__(
        self,
        client: Client,
        journal: Journal,
        tokens: ModelTokens,
        wanted: PendingRequests,
        pace: Pace,
        recordings: Recordings | None,
    ) -> None:
        self._client, self._journal, self._tokens, self._wanted, self._pace = client, journal, tokens, wanted, pace
        self._recordings = recordings
        self._left = dict(wanted.left)
        self.asked = self.failed = 0
        self.canary: Summary | None = None

    def until_decided(self, stopping: Stopping) -> State:
        """Ask batch by batch until the gate is decided, or all was asked."""
        state = stopping.grade_new(self._journal.read())
        for batch in stopping.batches():
            for _ in self.run([request for request in batch if not self._wanted.is_answered(request)]):
                pass
            state = stopping.grade_new(self._journal.read())
        return state

    def run(self, requests: Sequence[Request] | PendingRequests) -> Iterator[str]:
        """Ask these; the name of each task as soon as it is done."""
        for said in ask_in_rounds(self._ask, requests):
            yield from self._keep(said)

    def first(self) -> Iterator[str]:
        """The canary; the name of each task that is done, as of `run_pack`.

        Its answers are kept only after it has judged them. Those of a broken server would count as good once the server
        is repaired, since no setting tells them apart.
        """
        yield from (name for name, left in self._left.items() if not left)
        first = choose_first_requests(self._wanted, self._recordings) if self._recordings else {}
        if not first:
            return
        report_progress(f"canary: {len(first)} docs first, beside the recorded answers")
        encoder = self._tokens.encoder
        canary = Canary(
            self._client, {name: recorded for name, (_, recorded) in first.items()},
            encoder.encode_text if encoder else list, encoder.bos if encoder else None,
        )  # fmt: skip
        held = list(self._ask([request for request, _ in first.values()]))
        self.canary = canary.judge(held)
        report_progress(f"canary: {self.canary}")
        for _, said in held:
            if said.error is None:
                self._wanted.note(said.request)
                yield from self._keep(said)
        self._pace.begin()

    def _ask(self, requests: Iterable[Request]) -> Iterator[tuple[EngineRequest, EngineResponse]]:
        asks = with_token_ids(requests, self._tokens.encoder)
        return check_token_counts(self._client, asks, check=self._recordings is not None)

    def _keep(self, said: EngineResponse) -> Iterator[str]:
        self._journal.add(said, engine=self._client.engine)
        self._pace.add(said)
        if said.error is not None and not self.failed:
            log.warning(f"{said.request.id} has no answer: {said.error}")
        self.asked += 1
        self.failed += said.error is not None
        task = said.request.task
        self._left[task] -= 1
        if not self._left[task]:
            yield task


def _stopping(
    pack: Path,
    manifest: Manifest,
    grading: Grading,
    wanted: PendingRequests,
    shard: tuple[int, int],
    settings: RunSettings,
) -> Stopping:
    if shard[1] > 1:
        raise ConfigError("cannot be used with a shard", where="--stop-when-decided", hint="Leave out --shard")
    _make_baseline(pack, grading)
    rules = Gate(margin=settings.margin, weights=settings.weights)
    return Stopping(pack, manifest, grading, wanted.by_doc(), rules.complete(manifest, manifest.tasks, manifest.groups))


def _make_baseline(pack: Path, grading: Grading) -> None:
    """Grade the recorded answers that were not graded yet; a failure is only a warning."""
    from meta_eval.verification.baselines import refresh_baseline

    try:
        refresh_baseline(pack, grading.tasks, grading.options)
    except UserError as error:
        log.warning(f"the recorded answers cannot be graded: {error}")


def _stopped(state: State | None, stopping: Stopping | None) -> dict[str, Any] | None:
    """The entry of the results file for a run that stopped early; empty for a run of all docs."""
    if state is None or stopping is None or state.outcome is None:
        return None
    return {"outcome": state.outcome, "margin": stopping.margin, "docs": state.docs, "of": stopping.docs}


def collect_identity(settings: RunSettings) -> dict[str, Any]:
    """Collect everything apart from its request that an answer depends on, as plain JSON: the key of kept answers."""
    dumped = settings.model_dump(mode="json")
    kept = {name: value for name, value in sorted(dumped.items()) if name not in _NO_MATTER | _OF_PACK}
    own = kept.pop("tokenizer")
    tokenizer = {"tokenizer": own, "tokenizer_files": model_fingerprint(own)} if own else {}
    return {**kept, **tokenizer, "model_files": model_fingerprint(settings.model_name)}


def prepare_pack(config: Config, config_place: str, *, edited: bool) -> Path:
    """The pack of a configuration: the one that lies there, if it is of the same settings."""
    pack = Path(config.work_dir)
    if (pack / MANIFEST).exists():
        manifest = read_manifest(pack)
        changed = _changed(manifest, config)
        if not changed:
            check_unchanged(pack, manifest, edited=edited)
            return pack
        log.warning(f"{pack} was prepared with different settings ({', '.join(changed)}): preparing it again")
    from meta_eval.records.preparation import prepare_config

    prepare_config(config, config_place)
    return pack


def _changed(manifest: Manifest, config: Config) -> list[str]:
    """The keys in which a configuration is not that of a pack, but for those that no answer depends on."""
    asked = manifest.prepared_from
    pairs = {
        name: (getattr(manifest.run, name), getattr(config, name))
        for name in Settings.model_fields
        if name not in _FREE or name in ("margin", "weights")  # report judges by the pack's
    }
    for name in type(asked).model_fields:
        wanted = config.originals.by_join() if name == "originals" else getattr(config, name)
        pairs[name] = (getattr(asked, name), wanted)
    return [name for name, (there, wanted) in pairs.items() if there != wanted]


def settings_of(manifest: Manifest, config: Config) -> RunSettings:
    """The pack's, with what the user may change from run to run."""
    return manifest.run.model_copy(update={name: getattr(config, name) for name in _FREE})


def _tell(
    name: str,
    grading: Grading,
    journal: Journal,
    wanted: PendingRequests,
    scored: Scored | None,
    shard: tuple[int, int],
) -> None:
    """Grade one task before the others are asked. It is graded with them again; what fails here only is said.

    Not where nobody listens, or of a part of a task.
    """
    if scored is None or shard[1] > 1:
        return
    try:
        scores = grading.score(name, select_answers(journal.read(), wanted.hashes(name)))
    except UserError as error:
        log.warning(f"{name} cannot be graded: {error}")
    else:
        scored(name, scores)
