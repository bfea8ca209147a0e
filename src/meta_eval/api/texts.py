"""From two runs to the report of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.ask.recorded_answers import check_same_decoding, read_run_texts
from meta_eval.base.display import plural
from meta_eval.base.errors import ConfigError
from meta_eval.base.logs import report_progress
from meta_eval.base.thresholds import SAMENESS_MIN_DOCS
from meta_eval.harness.choice import Choice
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, check_choice
from meta_eval.pack.records.record_runs import read_any_run
from meta_eval.reports.document import RunProvenance
from meta_eval.reports.texts_report import TextsReport

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from meta_eval.ask.recorded_answers import TextKey
    from meta_eval.ask.request import Request
    from meta_eval.harness.answer import Answer
    from meta_eval.judge.text_partings import TextPair, TextVocabulary
    from meta_eval.judge.token_table import Forced, Tokens

    _Texts = Mapping[TextKey, tuple[Request, Answer]]


def build_texts_report(
    a: Sequence[Path],
    b: Sequence[Path],
    *,
    tables: Sequence[Path] = (),
    tokenizer: str | None = None,
    tasks: Sequence[str] = (),
    skip_damaged: bool = False,
    min_docs: int | None = None,
    exit_follows_decision: bool = False,
) -> TextsReport:
    """Compare the greedy texts of two runs, and measure where they part.

    Args:
        a, b: Results folders of the baseline and of the run that is judged.
        tables: Tables of tokens of the trusted copy over the texts of A, and perhaps of B; or folders with one.
        tokenizer: The model with the tokenizer. None for that of the tables, else of the runs' models.
        tasks: Only these tasks, groups or patterns.
        skip_damaged: Leave damaged data out.
        min_docs: With fewer docs equal texts decide nothing; None for the default.
        exit_follows_decision: Whether the exit code follows the outcome.

    Raises:
        UserError: A run or a table cannot be read, was sampled, or the runs have no prompt in common.
    """
    from meta_eval.judge.run_alarms import find_same_run
    from meta_eval.judge.text_partings import compare_greedy_texts

    opened = [_open_table(table) for table in tables]
    choice = Choice.of_names(tasks)
    runs = [read_any_run(side, skip_damaged=skip_damaged, choice=choice, needs_verdicts=False) for side in (a, b)]
    check_choice(choice, runs)
    if (fault := next((fault for run in runs for fault in run.faults.values()), None)) is not None:
        raise ResultsError(fault, hint="With --skip-damaged, the others are compared")
    report_progress("reading texts")
    read = [read_run_texts(run, ", ".join(map(str, side))) for run, side in zip(runs, (a, b), strict=True)]
    check_same_decoding(*runs)
    texts = [side for side, _ in read]
    pairs = _pair(*texts)
    if not pairs:
        raise ResultsError(
            "no prompt of A is a prompt of B", where="compare --texts", hint="Run both on the same tasks and docs"
        )
    models = [table.header.model for table in opened] + [model for run in runs if (model := _name_model(run))]
    words = _find_words([tokenizer] if tokenizer else models)
    if opened and words is None:
        raise ConfigError(
            f"the tokenizer of {tokenizer or models[0]} is not on this machine", where="--tokens",
            hint="Name a pack with --pack that was prepared with --set tokenizer=FOLDER",
        )  # fmt: skip
    scorings = {text.request_sha256 for side in texts for _, text in side.values()}
    known = [_read_table(table, scorings) for table in opened]
    comparison = compare_greedy_texts(pairs, _vocabulary(words), known, min_docs or SAMENESS_MIN_DOCS)
    for _, alarmed in find_same_run(*runs):
        reason = f"the same run twice: {alarmed.note}"
        comparison = replace(comparison, outcome="undecided", reason=reason)
    notes = (
        *_several_notes([several for _, several in read]), *_notes(texts, len(pairs)), *_table_notes(opened, known),
        *(note for run in runs for note in run.notes),
    )  # fmt: skip
    return TextsReport(
        _provenance("A", runs[0], a), _provenance("B", runs[1], b), comparison,
        "token" if words else "character", lambda ids: _decode(words, ids),
        notes, exit_follows_decision,
    )  # fmt: skip


def _pair(a: _Texts, b: _Texts) -> list[TextPair]:
    from meta_eval.judge.text_partings import TextPair

    return [
        TextPair(
            asked.task, asked.doc, text.text or "", b[key][1].text or "", text.request_sha256,
            b[key][1].request_sha256, asked.stop, asked.max_tokens,
        )
        for key, (asked, text) in a.items()
        if key in b
    ]  # fmt: skip


def _notes(texts: Sequence[_Texts], pairs: int) -> Iterable[str]:
    for name, other, side in zip("AB", "BA", texts, strict=True):
        if len(side) > pairs:
            yield f"{plural(len(side) - pairs, 'text')} of {name} left out: {other} has no text behind this prompt"


def _several_notes(several: Sequence[Mapping[str, int]]) -> Iterable[str]:
    for name, tasks in zip("AB", several, strict=True):
        for task, docs in tasks.items():
            yield f"{task}: {plural(docs, 'doc')} of {name} with several answers left out; --texts compares single ones"


def _table_notes(opened: Sequence[Tokens], known: Sequence[Mapping[str, Forced]]) -> Iterable[str]:
    for table, scored in zip(opened, known, strict=True):
        if not scored:
            yield (
                f"{table.path} holds no text of A or B: prepare a pack whose evals_dataset is the run, and make the "
                "table with it"
            )
        elif any(answer.top_k_ids is None for answer in scored.values()):
            yield f"{table.path} keeps no likeliest tokens, so some partings are not measured: use --top-k 20"


def _open_table(place: Path) -> Tokens:
    from meta_eval.judge.token_table import find_table, read_tokens

    return read_tokens(find_table(place))


def _read_table(table: Tokens, scorings: set[str | None]) -> dict[str, Forced]:
    """The scored texts of the two runs, by the hash of their request."""
    return {answer.request_sha256: answer for answer in table if answer.request_sha256 in scorings}


def _find_words(models: Iterable[str]) -> Tokenizer | None:
    from meta_eval.pack.prompt_lengths import find_tokenizer

    return next((words for model in models if (words := find_tokenizer(model)) is not None), None)


def _vocabulary(words: Tokenizer | None) -> TextVocabulary | None:
    from meta_eval.judge.text_partings import TextVocabulary

    if words is None:
        return None
    special = {number for number, token in words.get_added_tokens_decoder().items() if token.special}

    def encode(text: str) -> list[int]:
        encodable = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return list(words.encode(encodable, add_special_tokens=False).ids)

    return TextVocabulary(encode, lambda ids: _decode(words, ids), frozenset(special))


def _decode(words: Tokenizer | None, ids: Sequence[int]) -> str:
    if words is None:
        return "".join(map(chr, ids)).encode("utf-8", "replace").decode("utf-8")
    return words.decode(list(ids), skip_special_tokens=False)


def _name_model(run: Run) -> str | None:
    return next((task.provenance.model for task in run.tasks.values()), None)


def _provenance(label: str, run: Run, places: Sequence[Path]) -> RunProvenance:
    return RunProvenance(label, _name_model(run) or "", (), ", ".join(map(str, places)))
