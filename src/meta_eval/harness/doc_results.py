"""The data kept of a run's samples: docs, and the results of each filter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from meta_eval.base.errors import UserError
from meta_eval.harness.metrics import MetricValue

# Characters kept of the end of an answer, and of an extraction.
MAX_TAIL_CHARS = 400
MAX_EXTRACTED_CHARS = 200


class ResultsError(UserError):
    """A file of lm_eval is truncated, damaged or contradictory, or does not belong to this pack."""


def make_not_a_sample_error(what: str) -> ResultsError:
    """The error of a sample that lm_eval did not write."""
    return ResultsError(f"{what}: not a sample of lm_eval", hint="Name the --output_path of a run")


@dataclass(slots=True)
class FilterResult:
    """The result of a filter for an answer.

    Attributes:
        extracted: The extracted answer, cut to `MAX_EXTRACTED_CHARS` characters; for a choice by likelihood, the
            likeliest continuation. None if nothing was extracted, or the filter returns the whole output.
        metrics: The metrics that lm_eval logged, by name; for several answers, the mean of those in
            ``verdict_of_each``.
        offset: The start of the sample in the samples file, in bytes.
        length: Its length, in bytes.
        verdict_of_each: For several answers, the verdicts by metric. Empty for a single answer, or if the filter
            combines all (a majority vote).
        majority: For several answers, the place in ``verdict_of_each`` of the first one with the most frequent
            extraction. None for a single answer, or if the filter extracts nothing.
        answers_given: How many answers the filter gives to the metric, as far as its output shows.
        is_timed_out: Whether the program that was graded ran out of time, as the pack's sandbox reports it.
        is_unextracted: Whether the filter found nothing in the answer (`sample_parser.read_unextracted`); None if
            unknown.
    """

    extracted: str | None
    metrics: dict[str, MetricValue]
    offset: int
    length: int
    verdict_of_each: dict[str, tuple[float, ...]] = field(default_factory=dict)
    majority: int | None = None
    answers_given: int = 1
    is_timed_out: bool = False
    is_unextracted: bool | None = None


@dataclass(slots=True)
class DocResult:
    """A doc of a task, with a model's answer.

    Attributes:
        doc_id: lm-eval's number of it.
        question_hash: Meta's SHA-256 of the question; lm-eval's hash of the doc where the task is none of Meta's.
        prompt_hashes: Meta's SHA-256 of the prompt, or of the prompt with each choice; else lm-eval's hash of what the
            model was given.
        prompt_matches: Whether the model was given the doc's own prompt, to the letter; None for docs that are not of
            a pack of meta-eval, whose prompts nobody knows.
        subtask: Its subtask.
        cluster: What it shares with other docs of its task (a question in several languages, a passage, or all that it
            is): docs of one cluster are not independent of each other. None where it stands alone, or nobody knows.
        gold: The right answer as the task writes it.
        n_choices: How many answers there are to choose from; None for free answers.
        recorded_is_correct: Meta's verdict on its own model's answer, also where Meta's recipe carries it.
        recorded_metrics: What Meta's metrics gave that answer, as JSON text.
        answer_tail: The last `MAX_TAIL_CHARS` characters of the answer; of a choice by likelihood the empty text.
        answer_empty: Whether the answer is nothing but white space; of several answers, whether all are.
        limit_hit: Whether the answer was as long as it was allowed to be; None when that cannot be known. Of several
            answers, whether one was.
        figures: Figures of the answer (`meta_eval.harness.doc_figures`), by key.
        filter_results: The results by filter.
        sent_hash: lm-eval's hash of the model's input; None if no run is read.
        cuts: Of each answer whether it was cut: at its limit, by a content filter, or before its first word. None where
            that cannot be known.
        is_cut_thinking: Whether an answer was cut before the end of its reasoning.
        recorded_cut, is_recorded_cut_thinking: The same of the recorded answer in the doc.
        place: Its index in the random order of the run, from 0; None without a random order.
        answer_hash: SHA-256 of all answers, or of all likelihoods to the last digit; None if they are unknown.
        leading_bos: The BOS texts that the prompt begins with; empty without one.
        has_bad_likelihood: Whether a log-likelihood is no finite number (NaN, infinite or missing), so that the doc has
            no answer whatever its verdict is.
        tools_lost: Whether it offers tools, and the endpoint left them out of its prompt.
    """

    doc_id: int
    question_hash: str
    prompt_hashes: tuple[str, ...]
    prompt_matches: bool | None
    subtask: str | None
    cluster: str | None
    gold: str
    n_choices: int | None
    recorded_is_correct: bool | None
    recorded_metrics: str | None
    answer_tail: str
    answer_empty: bool
    limit_hit: bool | None
    figures: dict[str, float] = field(default_factory=dict)
    filter_results: dict[str, FilterResult] = field(default_factory=dict)
    sent_hash: str | None = None
    cuts: tuple[bool | None, ...] = (None,)
    is_cut_thinking: bool = False
    recorded_cut: bool | None = None
    is_recorded_cut_thinking: bool = False
    place: int | None = None
    answer_hash: str | None = None
    leading_bos: str = ""
    has_bad_likelihood: bool = False
    tools_lost: bool = False

    def with_recorded(self, answers: dict[str, FilterResult]) -> DocResult:
        """The doc with the recorded answers by filter; the text of these answers is unknown."""
        return replace(
            self, filter_results=answers, answer_tail="", answer_empty=False, limit_hit=None, figures={},
            cuts=(self.recorded_cut,), is_cut_thinking=self.is_recorded_cut_thinking, answer_hash=None,
            has_bad_likelihood=False, tools_lost=False,
        )  # fmt: skip

    @property
    def is_unanswered(self) -> bool:
        """Whether the model gave no answer: an empty text, or a likelihood that is no finite number."""
        return self.answer_empty or self.has_bad_likelihood

    @property
    def cut_share(self) -> float | None:
        """The share of its answers that were cut; None if unknown for an answer."""
        return None if None in self.cuts else sum(map(bool, self.cuts)) / len(self.cuts)

    def shares_prompt_with(self, other: DocResult) -> bool:
        """Whether both have exactly the same prompt, as far as that is known."""
        if self.tools_lost != other.tools_lost:
            return False
        if None in (self.sent_hash, other.sent_hash):
            return (self.prompt_hashes, self.prompt_matches) == (other.prompt_hashes, other.prompt_matches)
        return (self.sent_hash, self.prompt_hashes) == (other.sent_hash, other.prompt_hashes)

    def has_same_question_and_answer(self, other: DocResult) -> bool:
        """Whether both have the same doc and the same answer."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("question_hash", "prompt_hashes", "gold", "answer_tail")
        )
