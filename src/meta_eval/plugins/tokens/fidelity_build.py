"""From tables to a fidelity report: read, compared, and some answers laid out token by token."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.base.thresholds import SAMENESS_MIN_DOCS
from meta_eval.plugins.tokens import fidelity_text as write
from meta_eval.plugins.tokens.fidelity_report import AnswerTokens, FidelityReport, Token
from meta_eval.plugins.tokens.fidelity_tables import Change
from meta_eval.plugins.tokens.thresholds import FIDELITY_NOISE_SEEN
from meta_eval.sockets import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from meta_eval.judge.token_table import Choices, Header
    from meta_eval.plugins.tokens.comparison import TableComparison
    from meta_eval.plugins.tokens.table_pairing import Pair
    from meta_eval.plugins.tokens.token_columns import Columns, Vocabulary
    from meta_eval.plugins.tokens.yardstick import Noise, Yardstick

# Number of answers shown token by token, and of tokens shown of an answer.
SHOWN, LONGEST = 12, 600

# Margins in nats at which a token is shaded a step deeper.
SHADES = (1e-6, 0.5, 1.0, 2.0, 5.0)


def build_fidelity_report(
    table: Path,
    *,
    baseline: Path | None = None,
    noise: Path | None = None,
    margin: float | None = None,
    min_docs: int | None = None,
    tokenizer: Tokenizer | None = None,
    exit_follows_decision: bool = False,
) -> FidelityReport:
    """Read a table, and a baseline's beside it.

    Args:
        table: Of texts; that of choices is taken from beside it. Either may be missing, not both.
        baseline: The baseline's.
        noise: A second table of the baseline's model. None for the one in the folder ``again`` beside the baseline, if
            there is any. If it is ``table`` itself, the report is about the noise.
        margin: The largest allowed distance, in nats per token; None for the default.
        min_docs: With fewer docs the outcome is undecided; None for the default.
        tokenizer: Of the model, for texts.
        exit_follows_decision: Whether the exit code follows the outcome.

    Raises:
        UserError: A table cannot be read, or they are not of the same tokens.
    """
    from meta_eval.judge.token_table import find_choices_path, read_choices, read_tokens
    from meta_eval.plugins.tokens import comparison as beside
    from meta_eval.plugins.tokens.choice_comparison import compare_choices
    from meta_eval.plugins.tokens.diagnosis import diagnose
    from meta_eval.plugins.tokens.diagnosis_case import ProbePair
    from meta_eval.plugins.tokens.probe_table import read_probes
    from meta_eval.plugins.tokens.table_pairing import pair_tables
    from meta_eval.plugins.tokens.token_columns import make_columns
    from meta_eval.plugins.tokens.token_figures import measure_choice_figures, measure_figures
    from meta_eval.plugins.tokens.yardstick import find_noise

    beside_it = find_choices_path(table)
    header, choices = read_choices(beside_it) if beside_it.exists() else (None, [])
    tokens = read_tokens(table) if table.exists() or header is None else None
    first = header if tokens is None else tokens.header
    assert first is not None  # noqa: S101 (one of both was read)
    words = _Words(tokenizer)
    columns = None if tokens is None else make_columns(tokens)
    some = tuple(measure_figures(columns, words.vocabulary)) if columns is not None and len(columns.row) else ()
    comparison, pair, other = None, None, None
    least = min_docs or SAMENESS_MIN_DOCS
    of_choices = None
    if noise is None and baseline is not None:
        noise = find_noise(baseline)
    is_noise = noise is not None and os.path.realpath(noise) == os.path.realpath(table)
    reading = _NoiseReading(None if is_noise else noise, baseline, first, margin)
    has_theirs = baseline is not None and find_choices_path(baseline).exists()
    other, baseline_choices = read_choices(find_choices_path(baseline)) if baseline and has_theirs else (None, [])
    if choices and has_theirs:
        of_choices = compare_choices(baseline_choices, choices, reading.of_choices(), least)
    if baseline is not None and tokens is not None and (baseline.exists() or of_choices is None):
        baseline_tokens = read_tokens(baseline)
        pair, other = pair_tables(baseline_tokens, tokens), baseline_tokens.header
        comparison = beside.compare_tables(pair, reading.of_texts(), words.vocabulary, least)
    if baseline is not None and comparison is None and of_choices is None:
        raise UserError(
            "holds only choices, and the baseline holds none", where=str(beside_it),
            hint="Run both models with the same pack, --tasks and --docs",
        )  # fmt: skip
    finding, probes = None, read_probes(table)
    if is_noise:
        pass
    elif comparison and pair and baseline is not None:
        baseline_probes = read_probes(baseline)
        finding = diagnose(
            comparison,
            pair,
            ProbePair(pair, baseline_probes, probes) if baseline_probes and probes else None,
        )
    notes = [
        *(note for compared in (comparison, of_choices) if compared for note in compared.notes),
        *reading.notes,
        *_note_uncompared(choices, baseline_choices, of_choices is not None or baseline is None),
        *write.describe_unread_tables(first.left_out),
    ]
    if columns is not None and any(answer.truncated for answer in columns.answers):
        notes.append("some prompts were cut to fit, and their answers say little")
    return FidelityReport(
        model=first.model,
        engine=first.engine,
        table=str(beside_it if tokens is None else table),
        figures=some,
        choices=tuple(measure_choice_figures(choices)),
        baseline=None if other is None else f"{other.model} ({other.engine})",
        noise=reading.description,
        is_noise=is_noise,
        baseline_figures=tuple(measure_figures(pair.baseline, words.vocabulary)) if pair else (),
        comparison=comparison,
        choice_comparison=of_choices,
        finding=finding,
        answers=tuple(_answers(columns, pair, words)) if columns is not None else (),
        changes=tuple(_changes(pair, comparison, words)) if pair and comparison else (),
        notes=tuple(notes),
        tokenizer=tokenizer is not None,
        exit_follows_decision=exit_follows_decision,
    )


def _note_uncompared(choices: Sequence[Choices], theirs: Sequence[Choices], is_settled: bool) -> Iterator[str]:
    """Say that only one of two models has choices."""
    if not is_settled and (choices or theirs):
        which = f"this model has {len(choices):,}" if choices else f"the baseline has {len(theirs):,}"
        yield f"choices are not compared: {which} docs of choices, and the other has none"


class _NoiseReading:
    """The yardstick of a comparison: the user's margin, else the noise of a second table of the baseline's model.

    Attributes:
        description: That table's model and engine, and what its measurement varied; None without one.
        notes: What must be known of it.
    """

    def __init__(self, noise: Path | None, baseline: Path | None, candidate: Header, margin: float | None) -> None:
        self._noise, self._baseline, self._candidate = noise if margin is None else None, baseline, candidate
        self._margin = margin
        self.description: str | None = None
        self.notes: list[str] = []

    def of_texts(self) -> Yardstick:
        """Of texts; None without a second table of texts."""
        from meta_eval.judge.token_table import read_tokens
        from meta_eval.plugins.tokens.table_pairing import pair_tables

        if self._noise is None or self._baseline is None or not self._noise.exists():
            return self._margin
        baseline, again = read_tokens(self._baseline), read_tokens(self._noise)
        return self._make(pair_tables(baseline, again), baseline.header, again.header)

    def of_choices(self) -> Yardstick:
        """Of choices; None without a second table of choices."""
        from meta_eval.judge.token_table import find_choices_path, read_choices
        from meta_eval.plugins.tokens.choice_comparison import pair_choices

        if self._noise is None or self._baseline is None or not find_choices_path(self._noise).exists():
            return self._margin
        (header, choices), (again, other) = map(read_choices, map(find_choices_path, (self._baseline, self._noise)))
        return self._make(pair_choices(choices, other), header, again)

    def _make(self, pair: Pair, baseline: Header, again: Header) -> Noise:
        from meta_eval.plugins.tokens.yardstick import make_noise

        noise = make_noise(pair, baseline, again, self._candidate)
        varied = ", ".join(noise.varied) or "batches"
        self.description = f"{again.model} ({again.engine}), measured with other {varied}"
        largest = max(noise.distances.values())
        if again.model != baseline.model:
            self._note(f"the second table of the baseline names another model: {again.model} and not {baseline.model}")
        if sum(noise.distances.values()) / len(noise.distances) > FIDELITY_NOISE_SEEN:
            self._note(
                f"the noise is above any noise seen ({FIDELITY_NOISE_SEEN:g} nats a token): "
                "its table may be of other weights"
            )
        if largest == 0:
            self._note("the two tables of the baseline are equal to the bit: any difference exceeds this noise")
        return noise

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)


class _Words:
    """Texts of token ids, as far as a tokenizer is there."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, str] = {}
        self.vocabulary = None if tokenizer is None else _vocabulary(tokenizer)

    def __call__(self, token: int) -> str:
        if token not in self._known:
            text = None if self._tokenizer is None else self._tokenizer.decode([token], skip_special_tokens=False)
            self._known[token] = text or f"#{token}"
        return self._known[token]

    def text(self, tokens: Sequence[int]) -> str:
        """Of several together: a character may be cut through by tokens."""
        if self._tokenizer is None:
            return "".join(map(self, tokens))
        return self._tokenizer.decode(list(tokens), skip_special_tokens=False)


def _vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    from meta_eval.plugins.tokens.token_columns import Vocabulary

    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    # In a byte-level BPE the digits of a token are plain; a space before them is a sign of its own.
    digits = {number for text, number in tokenizer.get_vocab().items() if text.lstrip("Ġ▁").isdigit()}
    return Vocabulary(frozenset(digits), frozenset(special))


def _answers(table: Columns, pair: Pair | None, words: _Words) -> list[AnswerTokens]:
    """The answers that are farthest, by what a token of them differs from the baseline, else by its margin."""
    import numpy as np

    shown = pair.candidate if pair else table
    size = np.abs(pair.difference) if pair else shown.margins
    sums, counts = shown.sums(size)
    order = np.argsort(-sums / np.maximum(counts, 1), kind="stable")[:SHOWN]
    return [_answer(shown, pair, int(row), float(sums[row] / counts[row]), words) for row in order if counts[row]]


def _answer(table: Columns, pair: Pair | None, row: int, size: float, words: _Words) -> AnswerTokens:
    import numpy as np

    answer = table.answers[row]
    places = np.flatnonzero(table.row == row)
    missed = places[~table.first[places]]
    first = int(missed[0]) if len(missed) else -1
    tokens = []
    for place in places[:LONGEST].tolist():
        recorded, top = int(table.ids[place]), int(table.top_ids[place])
        baseline_id = int(pair.baseline.top_ids[place]) if pair else -1
        margin = float(table.margins[place])
        tokens.append(
            Token(
                text=words(recorded),
                shade=sum(margin > limit for limit in SHADES),
                margin=margin,
                logprob=float(table.logprobs[place]),
                rank=int(table.ranks[place]),
                top_token=words(top) if top >= 0 and top != recorded else None,
                baseline_token=words(baseline_id) if baseline_id >= 0 and baseline_id != top else None,
                diverges=place == first,
            )
        )
    why = f"{size:.2g} nats a token {'from the baseline' if pair else 'below the likeliest'}"
    return AnswerTokens(answer.task, answer.doc, tuple(tokens), max(0, len(places) - LONGEST), why)


def _changes(pair: Pair, comparison: TableComparison, words: _Words) -> list[Change]:
    import numpy as np

    rows = {(answer.task, answer.doc): row for row, answer in enumerate(pair.baseline.answers)}
    shown = []
    for change in comparison.changes:
        places = np.flatnonzero(pair.baseline.row == rows[change.task, change.doc])
        context = words.text(pair.baseline.ids[places[max(0, change.at - 13) : change.at - 1]].tolist())
        shown.append(
            Change(
                change.task, change.doc, change.at, context[-60:], words(change.id),
                words(change.baseline_id), words(change.candidate_id),
                change.difference,
            )
        )  # fmt: skip
    return shown


def read_fidelity_reports(
    places: Iterable[Path], manifest_sha256: str | None
) -> tuple[tuple[FidelityReport, ...], tuple[str, ...]]:
    """The tables that lie in ``fidelity/`` of some folders of results, as figures alone; and what must be said of them.

    Args:
        places: Folders, or files, beside which nothing is looked for.
        manifest_sha256: Hash of the pack's manifest. Tables of other packs are left out with a note, and None takes
            all. Those that cannot be read are left out, too.
    """
    from meta_eval.judge.token_table import find_choices_path, read_choices, read_tokens, read_whole_tables
    from meta_eval.plugins.tokens.token_columns import make_columns
    from meta_eval.plugins.tokens.token_figures import measure_choice_figures, measure_figures

    facts, notes = [], []
    for table in (table for place in places if place.is_dir() for table in read_whole_tables(place / "fidelity")):
        try:
            tokens = read_tokens(table) if table.exists() else None
            other, choices = read_choices(find_choices_path(table)) if find_choices_path(table).exists() else (None, [])
        except UserError as error:
            notes.append(f"{error.where or table} is left out: {error.what}. Make it again, or move it away")
            continue
        header = other if tokens is None else tokens.header
        assert header is not None  # noqa: S101 (one of both is there)
        if manifest_sha256 is not None and header.manifest_sha256 != manifest_sha256:
            notes.append(f"{table} is a table of another pack, and left out")
            continue
        columns = make_columns(tokens or ())
        of_texts = tuple(measure_figures(columns)) if len(columns.row) else ()
        if of_texts or choices:
            facts.append(
                FidelityReport(
                    header.model, header.engine, str(table), of_texts, tuple(measure_choice_figures(choices))
                )
            )
    return tuple(facts), tuple(notes)
