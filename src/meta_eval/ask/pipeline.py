"""run: prepare if it is needed, check, ask what has no answer yet, grade.

A request is built by lm-eval's task (`request_kinds`), selected if it has no answer (`pending_requests`), tokenized
(`model_tokens`), sent (`client`), its answer kept (`journal`), and graded with its task (`grading`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.ask_options import RunOptions
from meta_eval.ask.canary import Summary
from meta_eval.ask.client import describe_start, find_client
from meta_eval.ask.early_stop import ReadRules, Stopping
from meta_eval.ask.grading import Graded, Grading
from meta_eval.ask.journal import (
    Journal,
    RunOrder,
    check_shard,
    compute_model_fingerprint,
    open_order,
    read_earlier_answers,
)
from meta_eval.ask.model_tokens import ModelTokens, tokens_of
from meta_eval.ask.pending_requests import PendingRequests, leave_out_unasked, select_answers
from meta_eval.ask.recorded_answers import Recordings
from meta_eval.ask.request_loop import EARLY, Pace, RequestLoop, SecondAnswers, estimate_tokens, open_second_answers
from meta_eval.ask.served import counting_saved
from meta_eval.base.errors import ConfigError, UserError
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import log, report_progress
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.provenance import merge_endpoint_notes
from meta_eval.harness.settings import RunSettings, Settings, list_settings
from meta_eval.pack.backends.base import Backend
from meta_eval.pack.backends.registry import backend_of
from meta_eval.pack.config import CONFIG_OBJECT, NEW_PACK, Config, ValuePlace, open_config, override_settings
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import MANIFEST, Manifest, read_manifest
from meta_eval.pack.pack_builder import make_prepared_from
from meta_eval.pack.pack_options import DEFAULT_CONFIG
from meta_eval.pack.prompt_lengths import find_tokenizer_file
from meta_eval.pack.source_files import find_changed_sources
from meta_eval.stats.sequential import State

_FREE = list_settings("any run", "report")
_NO_MATTER = list_settings("any run", "report", "docs")
# Settings that a run of a named pack may change: the report judges by the pack's own margin and weights.
_OF_RUN = list_settings("any run", "named pack")
# Settings of the pack that do not affect answers.
_OF_PACK = frozenset(("tasks", "include_path", "runs_code"))

# Called with a completely answered task, its scores, 0 to 1 by ``metric,filter``, and the docs that they are of.
Scored = Callable[[str, dict[str, float], Collection[int]], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during requests; ``kept`` answers of ``total`` are on disk."""

    def __init__(self, answered: int, total: int) -> None:
        super().__init__()
        self.kept, self.total = answered, total


@dataclass(slots=True)
class RunResult:
    """The result of a run."""

    pack: Path
    """The folder of the pack."""

    answers: list[Path] = field(default_factory=list)
    """The files of answers of all shards."""

    engine: str | None = None
    """The engine; None if there was nothing to ask."""

    before: int = 0
    """Number of requests answered before it began."""

    asked: int = 0
    """Number of requests that it sent."""

    failed: int = 0
    """Number of requests that failed on every attempt."""

    canary: Summary | None = None
    """The findings of the canary; None without a canary."""

    last: list[str] = field(default_factory=list)
    """The tasks that were finished when nothing else was left to ask: they are graded only once."""

    left_out: dict[str, str] = field(default_factory=dict)
    """The tasks that the engine cannot answer, each with the reason."""

    unanswered: dict[str, int] = field(default_factory=dict)
    """Number of requests without an answer by task, if nothing was to be asked."""

    graded: Graded | None = None
    """Scores and the results file; None for a shard, which is graded when all are done."""

    stopped: State | None = None
    """The decision of a run that stopped early."""

    asked_again: int = 0
    """Requests that were asked a second time."""

    retries: Mapping[str, int] = field(default_factory=dict)
    """How often requests were sent again because no answer came, by the reason. One that came later is an answer as any
    other."""

    order: RunOrder | None = None
    """The random order of its docs; None where there is none."""


def run_pack(
    config: Config | RunSettings,
    options: RunOptions,
    *,
    model: str | None = None,
    config_place: ValuePlace = CONFIG_OBJECT,
    baseline: bool = False,
    scored: Scored | None = None,
    stop_rules: ReadRules | None = None,
) -> RunResult:
    """Send the requests of a pack to a model, and grade its answers.

    Args:
        config: What to evaluate and how. A pack that lies in its work_dir and is of the same settings is used as it is.
            Or the settings of a pack that is there, as `read_run_settings` gives them.
        options: What is asked, and how it is graded.
        model: The model of the configuration to use; None for the first. All use the same pack.
        config_place: Where its values were written, for messages.
        baseline: Also grade the recorded answers, if `verify` has not: report compares the run with them.
        stop_rules: Reads what `stop_when_decided` decides by; needed for that option.
        scored: Called with each completely answered task. The task is graded at once, and again with all others.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    check_shard(options.shard)
    check_order_options(options)
    shard, grade_only = options.shard, options.grade_only
    if not grade_only:
        _check_engine(config, model or config.model_name)
    pack, manifest, settings = _open_pack(config, config_place, edited=options.edited)
    if model is not None:
        settings = settings.model_copy(update={"model_name": model})
    grading = Grading(pack, options)
    model, output = settings.model_name, Path(settings.output_path).expanduser()
    backend = backend_of(settings)
    tokens = _tokens(model, backend, settings, manifest, grade_only=grade_only)
    logs = output / "answers" / "logs"
    if shard[1] > 1:  # a file shared by several machines would be useless
        logs = logs / f"{shard[0]}-of-{shard[1]}"
    identity = collect_identity(settings)
    with Journal(output / "answers", model, identity, shard) as journal:
        answers = read_earlier_answers(journal, settings, asks=not grade_only, same=options.same_deployment)
        pending = PendingRequests(
            grading.evaluator, grading.tasks, settings.limit, shard, answers, lanes=len(settings.base_url)
        )
        second = open_second_answers(output, model, identity, grading, manifest, pending, _reruns(options))
        order = stopping = None
        if second.count or options.stop_when_decided or answers.orders:
            order = open_order(journal, answers.orders, options.order_seed)
        if options.stop_when_decided and order and stop_rules:
            stopping = _stopping(pack, manifest, grading, pending, order.seed, settings, stop_rules)
        done = RunResult(pack, before=sum(pending.total.values()) - sum(pending.left.values()))
        done.left_out = {} if grade_only else leave_out_unasked(pending, backend, needs_all=options.stop_when_decided)
        if grade_only:
            done.unanswered = {name: left for name, left in pending.left.items() if left}
        elif any(pending.left.values()) or second.pending:
            report_progress(describe_start(settings, logs))
            with find_client(settings)(settings, model=model, logs=logs, end=tokens.ends) as client:
                done.engine = client.engine
                done.left_out |= leave_out_unasked(
                    pending,
                    backend,
                    client,
                    has_tokenizer=tokens.encoder is not None,
                    needs_all=options.stop_when_decided,
                )
                expected = {name: estimate_tokens(pack, manifest, name) for name in pending.left}
                recordings = Recordings(pack, manifest) if options.canary else None
                asking = RequestLoop(
                    client, journal, tokens, pending, Pace(pending.left, expected), recordings,
                    endpoint_check=options.endpoint_check,
                )  # fmt: skip
                for name in _ask_everything(done, asking, stopping, second, order):
                    _tell(name, grading, journal, pending, scored, shard)
        done.order, done.answers = order, journal.files()
        if shard[1] == 1:
            report_progress("grading")
            answers = answers if grade_only else journal.read()
            _choose_graded(grading, done, pending, answers)
            done.graded = grading.grade(
                select_answers(answers, pending.keys()),
                output=output, partial=True, prices=settings, go_on=True,
                facts=_facts(done, stopping, second, answers),
            )  # fmt: skip
            _tell_graded(done, pending, answers, scored)
            if baseline:
                _make_baseline(pack, grading)
    return done


def _open_pack(
    config: Config | RunSettings, config_place: ValuePlace, *, edited: bool
) -> tuple[Path, Manifest, RunSettings]:
    if isinstance(config, RunSettings):
        pack = Path(config.include_path)
        manifest = read_manifest(pack)
        check_unchanged(pack, manifest, edited=edited)
        return pack, manifest, config
    pack = prepare_pack(config, config_place, edited=edited)
    manifest = read_manifest(pack)
    return pack, manifest, settings_of(manifest, config)


def _check_engine(config: Settings, model: str) -> None:
    """Refuse an engine or a model that is not on this machine, or a key that is not set, before a pack is made.

    Raises:
        BackendError: It is not there.
    """
    backend = backend_of(config)
    backend.check_model(model)
    if backend.reads_text or find_tokenizer_file(config.tokenizer_of(model)) is None:
        backend.check_installed(config)
    if config.base_url and not backend.starts_engine(config):
        from meta_eval.ask.servers_client import read_key

        read_key(config.api_key_env)


def _reruns(options: RunOptions) -> int:
    """How many docs are asked again."""
    default = EARLY if options.stop_when_decided else 0
    return 0 if options.grade_only else default if options.rerun is None else options.rerun


def _ask_everything(
    done: RunResult, asking: RequestLoop, stopping: Stopping | None, second: SecondAnswers, order: RunOrder | None
) -> Iterator[str]:
    """Ask all that is wanted, and some of it again; the name of each task that is done before the last.

    Raises:
        Interrupted: By Ctrl-C.
    """
    try:
        with counting_saved(lambda: (done.before + asking.kept, asking.total)):
            yield from asking.first()
            if stopping is not None:
                done.stopped = asking.until_decided(stopping)
            else:
                yield from asking.all()
            if order is not None:
                asking.ask_again(second, order, stopping.early_docs if stopping else None)
    except KeyboardInterrupt:
        raise Interrupted(done.before + asking.kept, asking.total) from None
    finally:
        done.retries = asking.note_endpoint().get("retries", {})
    done.asked, done.failed, done.canary = asking.asked, asking.failed, asking.canary
    done.asked_again, done.last = second.asked, asking.last


def _tokens(
    model: str, backend: Backend, settings: RunSettings, manifest: Manifest, *, grade_only: bool
) -> ModelTokens:
    if backend.renders_messages or (backend.reads_text and settings.tokenizer is None):
        return ModelTokens(None, None)
    report_progress(f"reading the tokenizer of {model}")
    return tokens_of(
        settings.tokenizer_of(model),
        needed=backend.needs_token_ids and not grade_only,
        needs_bos=manifest.needs_bos,
        add_bos=settings.add_bos_token,
    )


def _stopping(
    pack: Path,
    manifest: Manifest,
    grading: Grading,
    pending: PendingRequests,
    seed: str,
    settings: RunSettings,
    read_rules: ReadRules,
) -> Stopping:
    _make_baseline(pack, grading)
    rules = read_rules(manifest, list(grading.tasks), settings)
    return Stopping(pack, manifest, grading, pending.by_doc(), rules, seed)


def check_order_options(options: RunOptions) -> None:
    """Refuse what a random order and second answers cannot be used with.

    Raises:
        ConfigError: A shard with either of them, a seed without them, or a number of docs that is none.
    """
    used = {"--stop-when-decided": options.stop_when_decided, "--rerun": bool(options.rerun)}
    if options.shard[1] > 1 and (names := [name for name, on in used.items() if on]):
        raise ConfigError("cannot be used with a shard", where=names[0], hint="Leave out --shard")
    if options.order_seed is not None and not any(used.values()):
        raise ConfigError("needs a random order", where="--order-seed", hint="Add --rerun or --stop-when-decided")
    if options.order_seed == "":
        raise ConfigError("is empty", where="--order-seed", hint="Leave it out for a secret seed, or name one")
    if options.rerun is not None and options.rerun < 0:
        raise ConfigError(f"{options.rerun} is no number of docs", where="--rerun", hint="Use 100, or leave it out")


def _choose_graded(grading: Grading, done: RunResult, pending: PendingRequests, answers: Answers) -> None:
    """Grade no task that was left out and was never answered before: nothing of it is missing."""
    grading.requests = pending.slim_requests
    graded = [name for name in grading.tasks if name not in done.left_out or pending.find_answered_docs(name, answers)]
    grading.tasks = graded or grading.tasks


def _make_baseline(pack: Path, grading: Grading) -> None:
    """Grade recorded answers that were not graded yet; a failure is only a warning."""
    from meta_eval.pack.verify.pack_verification import refresh_baseline

    try:
        refresh_baseline(pack, grading.tasks, grading.options)
    except UserError as error:
        log.warning(f"the recorded answers cannot be graded: {error}")


def _facts(done: RunResult, stopping: Stopping | None, second: SecondAnswers, answers: Answers) -> dict[str, Any]:
    """What the results file says besides: a stop before the last doc, the order with its seed, second answers, what was
    seen of the endpoint."""
    facts: dict[str, Any] = {}
    state = done.stopped
    if state is not None and stopping is not None and state.outcome is not None:
        facts["stopped"] = {
            "outcome": state.outcome, "margin": stopping.margin, "docs": state.docs, "of": stopping.docs,
        }  # fmt: skip
    if done.order is not None:
        facts["order"] = done.order.to_json()
    if rerun := second.grade():
        facts["rerun"] = rerun
    if answers.endpoint:
        facts["endpoint"] = merge_endpoint_notes(answers.endpoint)
    return facts


def collect_identity(settings: RunSettings) -> dict[str, Any]:
    """Collect everything except the request that an answer depends on, as plain JSON: the key of kept answers."""
    dumped = settings.model_dump(mode="json")
    identity = {name: value for name, value in sorted(dumped.items()) if name not in _NO_MATTER | _OF_PACK}
    tokenizer_name = identity.pop("tokenizer")
    tokenizer = (
        {"tokenizer": tokenizer_name, "tokenizer_files": compute_model_fingerprint(tokenizer_name)}
        if tokenizer_name
        else {}
    )
    return {**identity, **tokenizer, "model_files": compute_model_fingerprint(settings.model_name)}


def prepare_pack(config: Config, config_place: ValuePlace, *, edited: bool) -> Path:
    """The pack of a configuration: the existing pack if it has the same settings and was made of the same files, else a
    new one."""
    pack = Path(config.work_dir)
    if (pack / MANIFEST).exists():
        manifest = read_manifest(pack)
        changed, files = _changed(manifest, config), find_changed_sources(manifest)
        if not changed:
            check_unchanged(pack, manifest, edited=edited)
            if not files:
                return pack
            what = f"{join_names(files, NAMED)} changed since {pack} was prepared"
            if edited or not _is_here(config.evals_dataset):
                log.warning(f"{what}, and {pack} is used as it is: `meta-eval prepare` makes it again")
                return pack
            log.warning(f"{what}: preparing it again")
        else:
            log.warning(f"{pack} was prepared with different settings ({', '.join(changed)}): preparing it again")
    from meta_eval.pack.records.preparation import prepare_config

    prepare_config(config, config_place)
    return pack


def read_run_settings(pack: Path, overrides: Sequence[str]) -> RunSettings:
    """The settings of a pack that is run as it is, whatever a configuration says.

    Args:
        pack: The pack.
        overrides: ``KEY=VALUE`` each, of the model, its engine and the run.

    Raises:
        UserError: The folder is not a pack, or an override would need another pack.
    """
    made = read_manifest(pack).run_settings
    settings = override_settings(made, overrides)
    changed = [name for name in Settings.model_fields if getattr(settings, name) != getattr(made, name)]
    if fixed := [name for name in changed if name not in _OF_RUN]:
        raise ConfigError(f"cannot change {fixed[0]}: the pack was made with it", where="--set", hint=NEW_PACK)
    return settings.model_copy(update={"include_path": str(pack)})


def _is_here(evals_dataset: str) -> bool:
    """Whether an evals dataset can be read again without the hub."""
    from meta_eval.pack.records.format_registry import list_words

    return expand_home(evals_dataset).exists() or evals_dataset in list_words()


def find_pack(
    pack: Path | str | None,
    config: Config | Path | str | None,
    overrides: Sequence[str],
    *,
    edited: bool,
    check: Callable[[Config], None] | None = None,
) -> tuple[Path, RunSettings]:
    """The pack that a verb works on, and the settings for one model.

    Args:
        pack: The pack; None for that of the configuration, which is prepared if it is needed.
        config: The configuration or its file, read only if no pack is named. None means the default file.
        overrides: ``KEY=VALUE`` each.
        edited: Accept a pack that was edited.
        check: Refuses a configuration before its pack is made.

    Raises:
        UserError: The pack or the configuration cannot be used, or it names several models.
    """
    if pack is not None:
        return Path(pack), override_settings(read_manifest(Path(pack)).run_settings, overrides)
    config_of_pack, place = open_config(config or DEFAULT_CONFIG, overrides)
    if config_of_pack.other_models:
        raise ConfigError(
            f"names {1 + len(config_of_pack.other_models)} models, and this call runs one", where="model_name",
            hint="Name it with --set model_name=…",
        )  # fmt: skip
    if check is not None:
        check(config_of_pack)
    folder = prepare_pack(config_of_pack, place, edited=edited)
    return folder, settings_of(read_manifest(folder), config_of_pack)


def _changed(manifest: Manifest, config: Config) -> list[str]:
    """The keys that differ between a configuration and a pack, except those that do not affect answers."""
    pairs = {
        name: (getattr(manifest.run_settings, name), getattr(config, name))
        for name in Settings.model_fields
        if name not in list_settings("any run")  # report uses the pack's margin and weights
    }
    old, new = dict(manifest.prepared_from), dict(make_prepared_from(config))
    pairs |= {name: (old.get(name), new.get(name)) for name in {**old, **new}}
    return [name for name, (old_value, value) in pairs.items() if old_value != value]


def settings_of(manifest: Manifest, config: Config) -> RunSettings:
    """The pack's settings, with those that the user may change from run to run."""
    return manifest.run_settings.model_copy(update={name: getattr(config, name) for name in _FREE})


def _tell(
    name: str,
    grading: Grading,
    journal: Journal,
    pending: PendingRequests,
    scored: Scored | None,
    shard: tuple[int, int],
) -> None:
    """Grade a task before the others are asked. It is graded again with them, so a failure here is only reported.

    Does nothing without a listener, or for a part of a task.
    """
    if scored is None or shard[1] > 1:
        return
    grading.requests = pending.slim_requests
    try:
        answers = journal.read()
        scores = grading.score(name, select_answers(answers, pending.keys(name)))
    except UserError as error:
        log.warning(f"{name} cannot be graded: {error}")
    else:
        scored(name, scores, pending.find_answered_docs(name, answers))


def _tell_graded(done: RunResult, pending: PendingRequests, answers: Answers, scored: Scored | None) -> None:
    if scored is not None and done.graded is not None:
        for name in done.last:
            if name in done.graded.scores:
                scored(name, done.graded.scores[name], pending.find_answered_docs(name, answers))
