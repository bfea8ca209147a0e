"""Writes the requests of a pack to a file that any program can answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from meta_eval.ask.answer_files import Answers, Export, find_form, read_answers
from meta_eval.ask.ask_options import ExportOptions
from meta_eval.ask.grading import is_answered
from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.recorded_answers import Recordings
from meta_eval.ask.request import Request
from meta_eval.ask.request_kinds import build_requests, choose_tasks_to_ask
from meta_eval.base.errors import ConfigError
from meta_eval.base.logs import log, report_progress
from meta_eval.base.outputs import check_outputs, check_own, replace_file
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.source_files import list_sources


@dataclass(slots=True)
class Exported:
    """The export: the file, the number of requests per task, and whether they contain token ids."""

    file: Path
    token_ids: bool
    tasks: dict[str, int] = field(default_factory=dict)


def export_requests(pack: Path, file: Path, options: ExportOptions) -> Exported:
    """Write the requests of a pack, whole or not at all.

    Args:
        pack: The pack.
        file: Where to write. A file of requests that an earlier export wrote is replaced.
        options: Requests to write.

    Raises:
        PackError: The folder is not a pack or was edited, or it needs requests that the format cannot hold.
        OutputError: The file cannot be written, or belongs to the pack.
        AnswersError: A file of answers cannot be read.
        ConfigError: The pack lacks a named task, there is no such form of files or it cannot hold these requests, or
            every request is answered.
    """
    form = find_form(options.to)
    manifest = read_manifest(pack)
    chosen = choose_tasks_to_ask(manifest, options.tasks)
    changed = check_unchanged(pack, manifest, edited=options.edited)
    encoder = _encoder(manifest) if form.takes_token_ids else None
    evaluator = Evaluator(pack)
    of = Export(pack, manifest, evaluator, chosen, encoder, options.force, changed)
    form.check_export(of)
    done = Exported(file, encoder is not None)
    check_outputs((file,), (pack, *list_sources(pack), *map(Path, options.answered)))
    check_own(file, form.mark)
    answers = read_answers([Path(answered) for answered in options.answered])
    if options.answered and not answers.by_key and not answers.failed:
        raise ConfigError("these files hold no answer", where="--answered", hint="Name the files that `run` wrote")
    with replace_file(file) as out:
        for line in form.format_requests(_build_requests(of, answers, done.tasks), of):
            out.write(line)
        if options.answered and not any(done.tasks.values()):
            raise ConfigError("these files answer every request", where="--answered", hint="Run `meta-eval grade`")
    return done


def _build_requests(of: Export, answers: Answers, counts: dict[str, int]) -> Iterator[Request]:
    """The requests without an answer, counted by task."""
    recordings, limit = Recordings(of.pack, of.manifest), of.manifest.run_settings.limit
    for name in of.tasks:
        docs = of.manifest.tasks[name].docs
        report_progress(name, 0, docs)
        counts[name] = 0
        built = (
            recordings.build_scoring_requests(of.evaluator, name, limit)
            if of.force
            else build_requests(of.evaluator, name, limit)
        )
        for request in built:
            if not is_answered(request, answers):
                counts[name] += 1
                yield request
                report_progress(name, counts[name], docs)


def _encoder(manifest: Manifest) -> Encoder | None:
    model = manifest.run_settings.tokenizer_of()
    tokenizer = find_tokenizer(model)
    if tokenizer is None:
        bos = "one BOS" if manifest.needs_bos else "its BOS, where it has one,"
        bos = bos if manifest.run_settings.add_bos_token else "no BOS"
        log.warning(
            f"the tokenizer of {model} is not on this machine: the requests hold only text. "
            f"Put {bos} before each prompt yourself"
        )
        return None
    try:
        return Encoder(tokenizer, needs_bos=manifest.needs_bos, add_bos=manifest.run_settings.add_bos_token)
    except ValueError as error:
        log.warning(f"the tokenizer of {model} {error}: the requests hold text alone")
        return None
