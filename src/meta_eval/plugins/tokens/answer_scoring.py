"""audit: measures how likely each token of an endpoint's answers is under a trusted copy, as fidelity does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meta_eval.plugins.tokens.endpoint_answers import AnswerFacts, EndpointAnswers
from meta_eval.plugins.tokens.options import FidelityOptions
from meta_eval.plugins.tokens.token_scoring import FidelityResult, Source, score_recorded_answers
from meta_eval.sockets import (
    Answers,
    AnswersError,
    ConfigError,
    Evaluator,
    Manifest,
    Recordings,
    Request,
    RunSettings,
    UserError,
    build_requests,
    fetch_chat_template,
    find_kind,
    join_names,
    read_bound_answers,
    read_manifest,
)

FOLDER = "audit"


@dataclass(frozen=True, slots=True)
class ScoredAnswers:
    """The scored answers of an endpoint.

    Attributes:
        measured: The result of scoring.
        table: The trusted copy's table.
        facts: What the endpoint says of each answer, by task and doc.
        endpoint: The model that it names.
    """

    measured: FidelityResult
    table: Path
    facts: Mapping[tuple[str, int], AnswerFacts]
    endpoint: str


def score_endpoint_answers(
    files: Sequence[Path], pack: Path, settings: RunSettings, options: FidelityOptions
) -> ScoredAnswers:
    """Score the answers of an endpoint under the model of some settings, the trusted copy.

    Args:
        files: Files of answers to the requests of the pack, and of the requests of batches. The name of the first names
            the folder of the table. Without files: the recorded answers of the pack.
        pack: The pack.
        settings: The trusted copy and its engine.
        options: As of `fidelity`.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    if settings.tokenizer is None and settings.model_name.endswith(".gguf"):
        raise ConfigError(
            "is not set, and a GGUF file has no tokenizer and chat template that can be read", where="tokenizer",
            hint="Name the model's folder or hub id: --set tokenizer=org/model",
        )  # fmt: skip
    answers = read_bound_answers(files, partial(_build_requests, pack)) if files else _read_record(pack)
    if not answers.by_key:
        raise AnswersError(
            "no line is an answer", where=join_names([str(file) for file in files], 3),
            hint="Name the file of answers that `run` wrote, or results of a batch",
        )  # fmt: skip
    models = sorted({answer.model for answer in answers.by_key.values() if answer.model})
    if len(models) > 1:
        raise AnswersError(f"are of {', '.join(models)}", where="ANSWERS", hint="Audit the answers of one model")
    read: list[EndpointAnswers] = []

    def read_endpoint(pack: Path, manifest: Manifest) -> EndpointAnswers:
        template = fetch_chat_template(settings.tokenizer_of(settings.model_name))
        read.append(EndpointAnswers(pack, manifest, answers, template))
        return read[0]

    name = files[0].stem if files else "recorded"
    folder = Path(FOLDER) / name
    measured = score_recorded_answers(pack, settings, options, Source(folder, read_endpoint))
    if measured.tables is None or measured.tables.texts is None:
        raise UserError("hold no text to score", where="ANSWERS", hint="Audit answers that were generated")
    return ScoredAnswers(measured, measured.tables.texts, read[0].facts, models[0] if models else name)


def _build_requests(pack: Path) -> Iterator[Request]:
    """All requests of a pack."""
    manifest, evaluator = read_manifest(pack), Evaluator(pack)
    for name in manifest.tasks:
        yield from build_requests(evaluator, name, manifest.run_settings.limit)


def _read_record(pack: Path) -> Answers:
    """The recorded answers of a pack in the place of an endpoint's."""
    manifest, answers = read_manifest(pack), Answers()
    recordings = Recordings(pack, manifest)
    texts = {name: recordings.read_task(name)[0] for name in manifest.tasks}
    for request in _build_requests(pack):
        recorded = texts[request.task][request.doc] if request.doc < len(texts[request.task]) else None
        if recorded is None or recorded.text is None or request.repeat or not find_kind(request.kind).answered_by_text:
            continue
        record = manifest.tasks[request.task].record
        answers.by_key[request.key] = request.answer(
            text=recorded.text, model=record.model if record else None, where=str(pack)
        )
    if not answers.by_key:
        raise UserError("holds no recorded answers", where=str(pack), hint="Name files of an endpoint's answers")
    return answers
