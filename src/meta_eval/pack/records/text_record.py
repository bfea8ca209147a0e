"""A record of plain texts: prompts, the model's answers, the right answers, and verdicts.

For formats that keep only these. Answers are graded by exact match, without surrounding white space.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meta_eval.base.errors import DataError
from meta_eval.base.hashing import hash_pieces, hash_text
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.format import ALL, Grader, Reading, Record, RecordedScore, RecordedTask
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs, format_doc
from meta_eval.pack.records.shipped_graders import make_grader_code
from meta_eval.stats import mean

VERDICT = "em,none"


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """One answer.

    Attributes:
        prompt: The model's input, without BOS.
        answer: The model's output.
        gold: The right answer.
        is_right: The recorded verdict; None if not recorded.
        subtask: Its subtask; None if the task has none.
    """

    prompt: str
    answer: str
    gold: str
    is_right: bool | None = None
    subtask: str | None = None


class TextRecord(Record):
    """A recorded run that consists of texts only: prompt, answer and gold.

    Args:
        name: The place, as the user wrote it.
        answers: The answers of each task.
        model: The model that answered; None if unknown.
        generation: lm-eval's generation settings of every request, such as ``until`` and ``max_gen_toks``; without
            ``max_gen_toks`` the limit is `meta_eval.base.thresholds.MAX_GEN_TOKS`.
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
        for number, answer in enumerate(answers):
            if not answer.prompt:
                raise DataError("has an empty prompt", where=f"{where}, doc {number}")
        rows = list(map(_row, answers))
        prompts = Counter(row.prompt for row in rows)
        repeated = len(rows) - len(prompts)
        verdicts = [float(answer.is_right) for answer in answers if answer.is_right is not None]
        return RecordedTask(
            rows=RecordedDocs(rows, dict(self._generation), None, {"duplicate_prompts": repeated} if repeated else {}),
            output_type="generate_until",
            revision="sha256:" + hash_pieces(f"{answer!r}\n" for answer in answers),
            entry=RecordEntry(
                model=self._model, time=None, results_file=None, lm_eval=None, backend=None, bos_text=None,
                chat_template=False, shots=None, task_version=None,
            ),
            benchmark=task,
            scores={VERDICT: RecordedScore(mean(verdicts))} if len(verdicts) == len(answers) else {},
            specs=[VERDICT],
        )  # fmt: skip

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        return Grader(make_grader_code("exact_match", task), VERDICT)


def _row(answer: TextAnswer) -> RecordedDoc:
    doc = {"query": answer.prompt, "gold": answer.gold, "golds": [answer.gold]}
    if answer.subtask is not None:
        doc["subtask_name"] = answer.subtask
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
