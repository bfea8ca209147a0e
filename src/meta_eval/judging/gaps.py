"""Known reasons why a score may differ from the published one although nothing is wrong: one table, with sources."""

from __future__ import annotations

from dataclasses import dataclass

from meta_eval.pack.manifest import TaskEntry


@dataclass(frozen=True, slots=True)
class Gap:
    """One reason, and what it applies to; an empty field applies to everything.

    ``recorded`` says that it is one for Meta's recorded answers already, whatever runs: it is the graders' or the
    published number's.
    """

    text: str
    source: str
    subsets: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    backends: frozenset[str] = frozenset()
    graded_by: str | None = None
    format: str | None = None
    recorded: bool = False

    def applies(self, entry: TaskEntry, backend: str | None) -> bool:
        return (
            (not self.subsets or entry.subset in self.subsets)
            and (not self.families or entry.family in self.families)
            and (not self.backends or backend in self.backends)
            and self.graded_by in (None, entry.graded_by)
            and self.format in (None, entry.format)
        )


GAPS = (
    Gap(
        "Meta asked sympy and then a model whether an answer equals the gold; here programs alone are asked, so that "
        "the score lies up to about a point lower.",
        "llama-models, models/llama3_1/eval_details.md (MATH)",
        graded_by="judge",
        recorded=True,
    ),
    Gap(
        "An engine that batches requests as they come does not give the same answers every time: Meta's recipe saw the "
        "score of one model differ by about a point from run to run.",
        "README.md of the meta_eval recipe, of vLLM",
        backends=frozenset(
            ("vllm", "vllm-vlm", "local-completions", "openai-completions", "sglang", "sglang-generate")
        ),
    ),
    Gap(
        "The model cards of Llama 3.2 publish MATH with no shots; the prompts of this subset hold four.",
        "llama-models, models/llama3_2/MODEL_CARD.md beside the rows of the evals dataset",
        subsets=frozenset(("math",)),
        families=frozenset(("3.2",)),
        recorded=True,
    ),
    Gap(
        "GPQA has several published numbers: with and without chain of thought, and of the Diamond set's 198 "
        "questions. This subset is the main set's 448 with chain of thought.",
        "llama-models, models/llama3_1/MODEL_CARD.md and models/llama3_2/MODEL_CARD.md",
        subsets=frozenset(("gpqa",)),
        families=frozenset(("3.1",)),
        recorded=True,
    ),
    Gap(
        "eval_details.md of Llama 3.2 says that GPQA is answered with chain of thought; the prompts of this subset ask "
        "for the letter at once.",
        "llama-models, models/llama3_2/eval_details.md beside the rows of the evals dataset",
        subsets=frozenset(("gpqa",)),
        families=frozenset(("3.2",)),
        recorded=True,
    ),
    Gap(
        "Meta publishes the mean of four accuracies. Scores of the recipe are the mean of the two strict ones, which "
        "lies two to three points lower.",
        "llama-models, models/llama3_1/eval_details.md (IFEval)",
        subsets=frozenset(("ifeval__strict",)),
    ),
    Gap(
        "Meta's recorded yes or no says of an answer whether exactly one of its instructions is followed or all are, "
        "and not whether it is right: it is no verdict to compare a run with.",
        "docs/differences.md",
        subsets=frozenset(("ifeval__strict", "ifeval__loose")),
    ),
    Gap(
        "Nobody has compared this task's template with real rows: its prompts, extraction and metric are assumed.",
        "docs/tasks.md",
        format="assumed",
        recorded=True,
    ),
)


def known_gaps(entry: TaskEntry, backend: str | None) -> tuple[Gap, ...]:
    """The reasons that apply to a task as it was run."""
    return tuple(gap for gap in GAPS if gap.applies(entry, backend))
