"""fidelity: measures how likely each token of the recorded answers is under a model.

Each recorded answer becomes a request (`forced_requests`). Prompt and answer go through the engine in a single prefill
(`client`). The log-probabilities of tokens are kept (`journal`) and finally written as a table (`token_table_writer`).
Nothing is decoded, so it takes a small part of a run's time. For choices, the likelihoods are kept next to the recorded
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from meta_eval.ask.answer_files import read_answers
from meta_eval.ask.canary import check_token_counts
from meta_eval.ask.client import ask_in_rounds, describe_start, find_client
from meta_eval.ask.journal import Journal, check_shard, read_earlier_answers
from meta_eval.ask.model_tokens import ModelTokens, tokens_of
from meta_eval.ask.pipeline import Interrupted, collect_identity
from meta_eval.ask.recorded_answers import Recordings
from meta_eval.ask.request_kinds import choose_tasks_to_ask, encode_requests
from meta_eval.ask.request_loop import Pace
from meta_eval.ask.served import counting_saved
from meta_eval.base.hashing import hash_file
from meta_eval.base.inputs import expand_home
from meta_eval.base.logs import report_progress
from meta_eval.base.outputs import make_folder
from meta_eval.harness.answer import AnswersError
from meta_eval.judge.token_table import read_whole_tables
from meta_eval.pack.backends.registry import backend_of
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.prompt_lengths import find_tokenizer_file
from meta_eval.plugins.tokens.forced_requests import ProbeRequests, ToForce, choose_probed_docs
from meta_eval.plugins.tokens.options import FidelityOptions
from meta_eval.plugins.tokens.table_pairing import check_same_tokenizer
from meta_eval.plugins.tokens.token_table_writer import Tables, hash_tokenizer, write_tables
from meta_eval.plugins.tokens.yardstick import AGAIN
from meta_eval.sockets import Answer, Client, ConfigError, Manifest, Request, RunSettings, log, read_manifest

# Folder of answers and tables in the output folder.
_FOLDER = "fidelity"


@dataclass(frozen=True, slots=True)
class Source:
    """Answers to score in the place of the recorded ones."""

    folder: Path
    """Folder of answers and tables in the output folder."""

    read: Callable[[Path, Manifest], Recordings]
    """Reads them, from the pack and its manifest."""


_RECORDED = Source(Path(_FOLDER), Recordings)


@dataclass(slots=True)
class FidelityResult:
    """The result of a fidelity run."""

    pack: Path
    """The folder of the pack."""

    answers: list[Path] = field(default_factory=list)
    """The files of answers of all shards."""

    tables: Tables | None = None
    """The tables; None for a shard."""

    engine: str | None = None
    """The engine; None if there was nothing to ask."""

    before: int = 0
    """Number of requests answered before it began."""

    asked: int = 0
    """Number of requests that it sent."""

    failed: int = 0
    """Number of these without an answer."""

    probed: int = 0
    """Number of probes that it sent."""

    @property
    def kept(self) -> int:
        """Answers on disk."""
        return self.before + self.asked - self.failed


def score_recorded_answers(
    pack: Path, settings: RunSettings, options: FidelityOptions, source: Source = _RECORDED
) -> FidelityResult:
    """Measure how likely the recorded answers of a pack are under a model, and write the result as a table.

    Args:
        pack: The folder that prepare wrote.
        settings: Model and engine.
        options: The selection of answers, and further options.
        source: The answers; by default the recorded ones.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    check_shard(shard := options.shard)
    manifest = read_manifest(pack)
    names = choose_tasks_to_ask(manifest, options.tasks)
    check_unchanged(pack, manifest, edited=options.edited)
    model, output = settings.model_name, expand_home(settings.output_path, where="output_path") / source.folder
    backend = backend_of(settings)
    if options.again:
        _check_first_table(output)
        settings, output, options = backend.vary_rounding(settings), output / AGAIN, options.updated(probe=False)
    if options.answers:
        return _of_files(pack, manifest, names, settings, options, output)
    logs = output / "logs" / (f"{shard[0]}-of-{shard[1]}" if shard[1] > 1 else "")
    with Journal(output, model, collect_identity(settings), shard) as journal:
        answers = read_earlier_answers(
            journal, settings, asks=options.ask, same=options.same_deployment, folder_option="--output FOLDER"
        )
        pending = ToForce(
            pack, manifest, names, settings, options.docs, shard, options.top_k, answers,
            source.read(pack, manifest),
        )  # fmt: skip
        done = FidelityResult(pack, before=sum(pending.total.values()) - sum(pending.left.values()))
        probing = ProbeRequests(pending.of_docs(choose_probed_docs(pending.lengths)))
        probe = options.probe and shard[0] == 0 and "force" in backend.kinds and not backend.reloads_model
        if options.ask and (any(pending.left.values()) or (probe and not probing.is_begun(journal.read()))):
            pending.check_backend(backend)
            report_progress(f"reading the tokenizer of {model}")
            if find_tokenizer_file(settings.tokenizer_of(model)) is None:
                backend.check_installed(settings)
            tokens = tokens_of(
                settings.tokenizer_of(model), needed=True,
                needs_bos=manifest.needs_bos and pending.recordings.adds_bos,
                add_bos=manifest.run_settings.add_bos_token and pending.recordings.adds_bos,
            )  # fmt: skip
            if options.baseline is not None:
                check_same_tokenizer(Path(options.baseline), hash_tokenizer(settings.tokenizer_of(model)), model)
            report_progress(describe_start(settings, logs))
            with (
                counting_saved(lambda: (done.kept, sum(pending.total.values()))),
                find_client(settings)(settings, model=model, logs=logs, end=tokens.ends) as client,
            ):
                done.engine = client.engine
                pending.check_backend(backend, client)
                pace = Pace(pending.left, {})

                def some(requests: Iterable[Request]) -> Iterator[tuple[Request, Answer]]:
                    return check_token_counts(client, encode_requests(requests, tokens.encoder, top_k=options.top_k))

                try:
                    if probe:
                        report_progress("asking the probes")
                        done.probed = _probe(client, journal, probing, tokens)
                    pace.begin()
                    for answer in ask_in_rounds(some, pending):
                        journal.add(answer, engine=client.engine)
                        pace.add(answer)
                        if answer.error is not None and not done.failed:
                            log.warning(f"{answer.id} has no answer: {answer.error}")
                        done.asked += 1
                        done.failed += answer.error is not None
                except KeyboardInterrupt:
                    raise Interrupted(done.kept, sum(pending.total.values())) from None
        done.answers = journal.files()
        if shard[1] == 1:
            report_progress("writing the table")
            path = output / f"{journal.stem}.parquet"
            done.tables = write_tables(
                path, pending, journal.read(), probing, model=model, settings_sha256=journal.key,
                tokenizer=settings.tokenizer_of(model), measured=backend.rounding(settings),
            )  # fmt: skip
    return done


def _check_first_table(output: Path) -> None:
    """Refuse a second measurement without a first.

    Raises:
        ConfigError: The folder holds no table.
    """
    if not read_whole_tables(output):
        raise ConfigError(
            f"measures a model once more, and {output} holds no table yet", where="--again",
            hint="Run the same command without --again first",
        )  # fmt: skip


def _probe(client: Client, journal: Journal, probing: ProbeRequests, tokens: ModelTokens) -> int:
    """Send the unanswered probes once, and return their number. The engine's token count is not checked, because probes
    change the BOS."""
    asks = () if tokens.encoder is None else probing.build_requests(tokens.encoder, journal.read().by_key)
    answered = 0
    for _, answer in check_token_counts(client, asks, check=False):
        journal.add(answer, engine=client.engine)
        answered += 1
    return answered


def _of_files(
    pack: Path, manifest: Manifest, names: Sequence[str], settings: RunSettings, options: FidelityOptions, output: Path
) -> FidelityResult:  # fmt: skip
    """Write the tables of answers that were made elsewhere."""
    files = [Path(file) for file in options.answers]
    answers = read_answers(files)
    pending = ToForce(pack, manifest, names, settings, options.docs, (0, 1), options.top_k, answers)
    models = sorted({answer.model for answer in answers.by_key.values() if answer.model}) or [settings.model_name]
    if len(models) > 1 or answers.doubled:
        what = (
            f"are of {', '.join(models)}"
            if len(models) > 1
            else f"hold two answers to {next(iter(answers.doubled))[0]}"
        )
        raise AnswersError(
            f"{what}, and a table holds one", where="--answers", hint="Give the answers of one model, each file once"
        )
    journal = Journal(output, models[0], {"files": [hash_file(file) for file in files]})
    make_folder(output)
    path = output / f"{journal.stem}.parquet"
    probing = ProbeRequests(pending.of_docs(choose_probed_docs(pending.lengths)))
    tables = write_tables(path, pending, answers, probing, model=models[0], settings_sha256=journal.key, files=files)
    return FidelityResult(pack, files, tables, before=tables.answers)
