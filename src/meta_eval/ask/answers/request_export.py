"""Writes the requests of a pack to a file that any program can answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from meta_eval.ask.answers.answer_files import read_answers
from meta_eval.ask.answers.answer_matching import is_answered
from meta_eval.ask.answers.recorded_answers import Recordings
from meta_eval.ask.answers.requests import Encoder, Request, build_requests
from meta_eval.base.errors import ConfigError
from meta_eval.base.hashing import hash_file
from meta_eval.base.json_text import format_json
from meta_eval.base.logs import log, report_progress
from meta_eval.base.outputs import check_outputs, replace_file
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.baseline import compute_grading_fingerprints
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import MANIFEST, Manifest, read_manifest
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.task_choice import choose_tasks_to_ask
from meta_eval.plugins.chat.batch_requests import check_batch_tasks, format_batch_lines, warn_of_long_file
from meta_eval.verb_options import ExportOptions

FORMAT = "meta-eval requests"
VERSION = 1

# Number of requests that are tokenised together. Encodings take far more memory than texts.
_BATCH = 128


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
        file: Where to write. An existing file is replaced.
        options: Requests to write.

    Raises:
        PackError: The folder is not a pack or was edited, or it needs requests that the format cannot hold.
        OutputError: The file cannot be written, or belongs to the pack.
        AnswersError: A file of answers cannot be read.
        ConfigError: The pack lacks a named task, a chat endpoint cannot answer the requests of a batch file, or every
            request is answered.
    """
    batch = options.to == "batch"
    if batch and options.force:
        raise ConfigError("--to batch does not take it", where="--force", hint="Leave it out, or use --to requests")
    manifest = read_manifest(pack)
    chosen = choose_tasks_to_ask(manifest, options.tasks)
    changed = check_unchanged(pack, manifest, edited=options.edited)
    encoder = None if batch else _encoder(manifest)
    evaluator = Evaluator(pack)
    if batch:
        check_batch_tasks(evaluator, chosen, manifest)
    done = Exported(file, encoder is not None)
    check_outputs((file,), (*(pack / name for name in (MANIFEST, *manifest.files)), *map(Path, options.answered)))
    answers = read_answers([Path(answered) for answered in options.answered])
    recordings = Recordings(pack, manifest)
    with replace_file(file) as out:
        more = {**({"force": True} if options.force else {}), **({"edited": changed} if changed else {})}
        if not batch:
            out.write(_line({**_header(pack, manifest, chosen, encoder), **more}))
        for name in chosen:
            report_progress(name, 0, manifest.tasks[name].docs)
            done.tasks[name] = 0
            limit = manifest.run_settings.limit
            requests = (
                recordings.build_scoring_requests(evaluator, name, limit)
                if options.force
                else build_requests(evaluator, name, limit)
            )
            requests = (request for request in requests if not is_answered(request.digest(), answers))
            for line in format_batch_lines(requests, manifest) if batch else _lines(requests, encoder):
                out.write(line)
                done.tasks[name] += 1
                report_progress(name, done.tasks[name], manifest.tasks[name].docs)
        if options.answered and not any(done.tasks.values()):
            raise ConfigError("these files answer every request", where="--answered", hint="Run `meta-eval grade`")
    if batch:
        warn_of_long_file(sum(done.tasks.values()))
    return done


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


def _header(pack: Path, manifest: Manifest, tasks: Sequence[str], encoder: Encoder | None) -> dict[str, Any]:
    keys = compute_grading_fingerprints(pack, manifest)
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": manifest.run_settings.model_name,
        "seed": manifest.run_settings.seed,
        "manifest_sha256": hash_file(pack / MANIFEST),
        "tasks": {name: keys[name] for name in tasks},
        "bos_token_id": encoder.bos if encoder else None,
    }


def _lines(requests: Iterator[Request], encoder: Encoder | None) -> Iterator[str]:
    while batch := list(itertools.islice(requests, _BATCH)):
        ids = encoder.encode_requests(batch) if encoder else [{} for _ in batch]
        for request, tokens in zip(batch, ids, strict=True):
            yield _line({**_fields(request), **tokens})


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
    if request.kind in ("choices", "force"):
        return {**fields, "continuations": request.continuations}
    return {**fields, "stop": request.stop, "max_tokens": request.max_tokens, "settings": request.settings}


def _line(content: dict[str, Any]) -> str:
    return format_json(content) + "\n"
