"""audit: measures how likely each token of an endpoint's answers is under a trusted copy, as fidelity does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from meta_eval.answers.answer_files import AnswersError
from meta_eval.answers.batch_binding import read_bound_answers
from meta_eval.answers.endpoint_answers import AnswerFacts, EndpointAnswers
from meta_eval.answers.requests import Request, build_requests
from meta_eval.backends.settings import RunSettings
from meta_eval.messages.errors import UserError
from meta_eval.pack.chat_rendering import fetch_chat_template
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.running.token_scoring import FidelityResult, Source, score_recorded_answers
from meta_eval.verb_options import FidelityOptions
from meta_eval.verification.evaluator import Evaluator

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
            the folder of the table.
        pack: The pack.
        settings: The trusted copy and its engine.
        options: As of `fidelity`.

    Raises:
        UserError: Anything that the user can fix. Earlier answers are kept; the same call resumes.
        Interrupted: By Ctrl-C; likewise.
    """
    answers = read_bound_answers(files, partial(_build_requests, pack))
    models = sorted({answer.model for answer in answers.by_key.values() if answer.model})
    if len(models) > 1:
        raise AnswersError(f"are of {', '.join(models)}", where="ANSWERS", hint="Audit the answers of one model")
    read: list[EndpointAnswers] = []

    def read_endpoint(pack: Path, manifest: Manifest) -> EndpointAnswers:
        template = fetch_chat_template(settings.tokenizer_of(settings.model_name))
        read.append(EndpointAnswers(pack, manifest, answers, template))
        return read[0]

    folder = Path(FOLDER) / files[0].stem
    measured = score_recorded_answers(pack, settings, options, Source(folder, read_endpoint))
    if measured.tables is None or measured.tables.texts is None:
        raise UserError("hold no text to score", where="ANSWERS", hint="Audit answers that were generated")
    return ScoredAnswers(measured, measured.tables.texts, read[0].facts, models[0] if models else files[0].stem)


def _build_requests(pack: Path) -> Iterator[Request]:
    """All requests of a pack."""
    manifest, evaluator = read_manifest(pack), Evaluator(pack)
    for name in manifest.tasks:
        yield from build_requests(evaluator, name, manifest.run_settings.limit)
