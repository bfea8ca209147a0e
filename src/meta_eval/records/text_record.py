"""A record of plain answers: prompts, what the model wrote, the right answers, and who was right.

For formats that keep no more than that. Each answer is graded by exact match, without the white space around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_eval.boundary.hashing import hash_pieces, hash_text
from meta_eval.messages.errors import DataError
from meta_eval.pack.manifest import RecordEntry
from meta_eval.records.details.graded_docs import make_grader_code
from meta_eval.records.format import ALL, Grader, Reading, Record, RecordedScore, RecordedTask
from meta_eval.records.recorded_docs import RecordedDoc, RecordedDocs, format_doc
from meta_eval.stats import mean

VERDICT = "em,none"


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """One answer.

    Attributes:
        prompt: What the model was given, without BOS.
        answer: What it wrote.
        gold: The right answer.
        is_right: The recorded verdict; None where there is none.
    """

    prompt: str
    answer: str
    gold: str
    is_right: bool | None = None


class TextRecord(Record):
    """A recorded run that consists of texts only: prompt, answer and gold.

    Args:
        name: The place, as the user wrote it.
        answers: By task its answers.
        model: Whose they are; None where nobody says it.
        generation: The generation settings of every request.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[str, Sequence[TextAnswer]],
        *,
        model: str | None = None,
        generation: Mapping[str, object] | None = None,
    ) -> None:
        self.name, self.tasks, self.groups = name, tuple(answers), {ALL: tuple(answers)}
        self._answers, self._model = answers, model
        self._generation = {"until": [], "do_sample": False, **(generation or {})}

    def read(self, task: str, reading: Reading) -> RecordedTask:  # noqa: ARG002
        answers, where = self._answers[task], f"{self.name}, {task}"
        if not answers:
            raise DataError("holds no answer", where=where)
        rows = [_row(answer, f"{where}, doc {number}") for number, answer in enumerate(answers)]
        prompts = Counter(row.prompt for row in rows)
        repeated = len(rows) - len(prompts)
        verdicts = [float(answer.is_right) for answer in answers if answer.is_right is not None]
        return RecordedTask(
            rows=RecordedDocs(rows, dict(self._generation), None, {"duplicate_prompts": repeated} if repeated else {}),
            output_type="generate_until",
            revision="sha256:" + hash_pieces(f"{answer!r}\n" for answer in answers),
            entry=RecordEntry(
                model=self._model, time=None, results_file=None, lm_eval=None, backend=None, bos=None,
                chat_template=False, shots=None, task_version=None,
            ),
            benchmark=task,
            scores={VERDICT: RecordedScore(mean(verdicts))} if len(verdicts) == len(answers) else {},
            specs=[VERDICT],
        )  # fmt: skip

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        return Grader(make_grader_code("exact_match", task), VERDICT)


def _row(answer: TextAnswer, where: str) -> RecordedDoc:
    if not answer.prompt:
        raise DataError("was asked with an empty prompt", where=where)
    doc = {"query": answer.prompt, "gold": answer.gold, "golds": [answer.gold]}
    return RecordedDoc(
        doc=doc,
        prompt=answer.prompt,
        continuations=(),
        question_hash=hash_text(format_doc(doc)),
        prompt_hash=hash_text(answer.prompt),
        gold=answer.gold,
        responses=[[answer.answer]],
        metrics=None if answer.is_right is None else {VERDICT: float(answer.is_right)},
    )
