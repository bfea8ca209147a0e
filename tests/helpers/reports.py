"""Invented reports and samples for tests of their views."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from meta_eval.judge.alarm_kinds import Alarm, AlarmOccurrence
from meta_eval.judge.decide import Decision, Veto, decide_outcome
from meta_eval.judge.decision import Flips, Measure, ReferenceScore, Score, TaskDecision
from meta_eval.judge.figures import measure_baseline_distance
from meta_eval.judge.pair import TaskPair
from meta_eval.reports.document import DocumentSource, RunProvenance, ShownAnswer, ShownSample
from meta_eval.reports.report import Report
from meta_eval.reports.views import HtmlView, write_view
from meta_eval.stats import Drop, Interval, paired_drop

WORDS = ("river", "stone", "engine", "harbour", "signal", "copper", "lantern", "meadow", "orbit", "timber", "valley")
SUBJECTS = (
    "biology", "business", "chemistry", "computer science", "economics", "engineering", "health", "history", "law",
    "math", "other", "philosophy", "physics", "psychology",
)  # fmt: skip

_PROSE = " ".join(random.Random(7).choices(WORDS, k=60_000))

# A script, an event handler, the end of an element, markup, controls, reordering, half a surrogate pair, an entity, a
# link and a template's braces.
HOSTILE = (
    "</script><script>window.hurt = 1</script>",
    '<img src=x onerror="window.hurt = 2">',
    "--></style></textarea></title><svg onload='window.hurt = 3'>",
    "<b>bold</b> &lt;i&gt; &amp; {{ 7 * 7 }} {% raw %} ${7 * 7}",
    "null \x00 bell \x07 escape \x1b[31m delete \x7f",
    "a\u202egnp.exe\u202c \u2066left\u2069 \u200bzero\ufeff",
    "half a pair \ud83d and the other half \ude00",
    "javascript:window.hurt=4 [link](javascript:window.hurt=5) `code` | pipe |",
)


def write_html(path: Path, report: DocumentSource, samples: Iterable[ShownSample] = ()) -> None:
    """Write the page of a report with these samples."""
    write_view(path, HtmlView(), report.document(lambda: samples) if isinstance(report, Report) else report.document())


def published(value: float, *, averaging: str | None = None, shots: str = "5") -> ReferenceScore:
    return ReferenceScore(value, "MMLU-Pro (CoT)", "acc", averaging, shots, "a model card", None)


def score(
    value: float, half: float, n: int, of: ReferenceScore, averaging: str = "micro", reason: str | None = None
) -> Score:
    bounds = Interval(max(0.0, value - half), min(1.0, value + half))
    difference = None if reason else value - of.value
    known = "Meta asked a judge model too"
    distance = None if reason else measure_baseline_distance("some", "some", of.value - 0.004, of.value, known)
    return Score("exact_match,strict-match", averaging, n, value, bounds, of, difference, reason, distance)


@functools.cache
def lost_and_won(lost: int, won: int, docs: int, right: float = 0.5) -> Drop:
    """Return the drop of a task with ``docs`` docs, of which the baseline has the share ``right``."""
    kept = round(right * docs) - lost
    before = [1.0] * (lost + kept) + [0.0] * (docs - lost - kept)
    after = [0.0] * lost + [1.0] * (kept + won) + [0.0] * (docs - lost - kept - won)
    return paired_drop(before, after)


def made(
    tasks: Sequence[TaskDecision], drops: Mapping[str, Drop], vetoes: Sequence[Veto] = ()
) -> tuple[Decision, tuple[TaskDecision, ...]]:
    """Return the decision on these drops, and the tasks with it."""
    figures = {task.name: task for task in tasks}
    pairs = [TaskPair(name, measured_drop=drop, figures=figures.get(name)) for name, drop in drops.items()]
    decision = decide_outcome(pairs, vetoes=vetoes)
    decided = {task.name: task for task in decision.tasks}
    return decision, tuple(decided.get(task.name, task) for task in tasks)


def make_report(*, exit_follows_decision: bool = False, name: str = "Llama-3.1-8B-Instruct-FP8") -> Report:
    """Make a report with every outcome, alarms, a task without a run and numbers of other settings."""
    chance = random.Random(5)
    subtasks = []
    for number, subject in enumerate(SUBJECTS):
        other = chance.uniform(0.3, 0.7)
        ours = min(0.9, max(0.05, other + chance.gauss(0, 0.04)))
        subtasks.append(
            Measure(f"mmlu_pro_chat.{subject}", 300 + 60 * number, ours, baseline=other, clear=number % 3 == 1)
        )
    answers = "Meta's recorded answers, graded by the pack"
    tasks = (
        TaskDecision(
            "meta_mmlu_pro_instruct", "mmlu_pro", 12032, 12032, baseline_label=answers,
            scores=(
                score(0.479, 0.009, 12032, published(0.483, averaging="macro"), averaging="macro"),
                score(0.466, 0.0089, 12032, published(0.470, averaging="micro")),
            ),
            flips=Flips("Meta's", "ours", 12032, 587, 534),
            subtasks=tuple(subtasks),
        ),
        TaskDecision(
            "meta_math_hard", "math_hard", 1324, 1324, baseline_label=answers,
            scores=(score(0.214, 0.022, 1324, published(0.254, shots="0")),),
            flips=Flips("Meta's", "ours", 1324, 94, 41),
            gaps=("Meta graded with sympy and then a judge model, which cannot be repeated exactly.",),
        ),
        TaskDecision(
            "meta_ifeval", "ifeval__strict", 541, 541, baseline_label="the published number alone", runs=2,
            fallback_reason="verify has not been run on this task: run `meta-eval verify`",
            scores=(score(0.861, 0.027, 541, published(0.804, averaging="mean of four"), "mean of four"),),
            flips=Flips("Meta's", "ours", 541, 21, 50),
        ),
        TaskDecision(
            "meta_math", "math", 5000, 5000, not_compared_reason="it was measured with 0 shots",
            scores=(score(0.461, 0.014, 5000, published(0.48, shots="0"), reason="it was measured with 0 shots"),),
        ),
    )  # fmt: skip
    facts = (
        ("pack", "8c1f0c5f3c0e2b8e"), ("evals dataset", "meta-llama/Llama-3.1-8B-Instruct-evals at 7a5c2f1"),
        ("backend", "vllm"), ("lm-eval", "0.4.13"), ("engine", "vllm 0.10.2"), ("duration", "2 h 14 min"),
        ("model_args", "pretrained=Llama-3.1-8B-Instruct-FP8,max_model_len=8192,add_bos_token=True,seed=42"),
    )  # fmt: skip
    drops = {
        "meta_mmlu_pro_instruct": lost_and_won(587, 534, 12032),
        "meta_math_hard": lost_and_won(94, 41, 1324, 0.25),
        "meta_ifeval": lost_and_won(21, 50, 541, 0.8),
    }
    decision, decided = made(tasks, drops, [Veto("not run: meta_gpqa_cot")])
    alarms = (
        Alarm("not run", "There is no result of these tasks to compare.", None, (AlarmOccurrence("meta_gpqa_cot"),)),
        Alarm(
            "limit hit", "Answers that reached the token limit may have been cut off.", "limit hit",
            (AlarmOccurrence("meta_mmlu_pro_instruct", None, 31, 12032),),
        ),
        Alarm(
            "nothing extracted", "They count as wrong.", "unextracted",
            (AlarmOccurrence("meta_math_hard", None, 212, 1324, veto=False),),
        ),
    )  # fmt: skip
    notes = ("meta_ifeval: 2 runs are averaged, doc by doc",)
    return Report(
        document_type="report",
        title=name,
        decision=decision,
        runs=(RunProvenance("this run", name, facts),),
        tasks=decided,
        alarms=alarms,
        notes=notes,
        exit_follows_decision=exit_follows_decision,
    )


def make_comparison() -> Report:
    tasks = (
        TaskDecision(
            "meta_mmlu_pro_instruct", "mmlu_pro", 12032, 12032, baseline_label="run A",
            flips=Flips("A", "B", 12032, 384, 348),
            subtasks=(Measure("s.law", 900, 0.31, baseline=0.33, clear=False), Measure("s.physics", 900, 0.52, baseline=0.49, clear=True)),
        ),
        TaskDecision("meta_math_hard", "math_hard", 1324, 1324, baseline_label="run A", flips=Flips("A", "B", 1324, 94, 41)),
    )  # fmt: skip
    drops = {
        "meta_mmlu_pro_instruct": lost_and_won(384, 348, 12032), "meta_math_hard": lost_and_won(94, 41, 1324, 0.25),
    }  # fmt: skip
    decision, decided = made(tasks, drops)
    runs = (
        RunProvenance("A", "Llama-3.1-8B-Instruct", (("lm-eval", "0.4.13"),)),
        RunProvenance("B", "Llama-3.1-8B-FP8", (("lm-eval", "0.4.13"),)),
    )
    return Report(
        document_type="compare",
        title="Llama-3.1-8B-FP8 beside Llama-3.1-8B-Instruct",
        decision=decision,
        runs=runs,
        tasks=decided,
    )


def prose(chance: random.Random, characters: int) -> str:
    """Return random words from a text that is large enough not to compress well."""
    begin = chance.randrange(len(_PROSE) - characters)
    return _PROSE[begin : begin + characters]


def make_samples(count: int, characters: int, *, answers: int = 1) -> Iterator[ShownSample]:
    """Make the same samples of two tasks each time, with a text of ``characters`` characters."""
    chance = random.Random(count)
    for number in range(count):
        task = "meta_mmlu_pro_instruct" if number < 0.9 * count else "meta_math_hard"
        subject = SUBJECTS[number % len(SUBJECTS)]
        question = f"Question {number}: what lies under the {prose(chance, 60)}?"
        given = []
        for _ in range(answers):
            right, lost = chance.random() < 0.48, chance.random() < 0.03
            flags = ("unextracted",) if lost else ("limit hit",) if chance.random() < 0.01 else ()
            letter = "C" if right else chance.choice("ABDE")
            text = f"Let us think. {prose(chance, characters // 8)}\n\nThe best answer is {letter}."
            verdict = float(right and not lost)
            given.append(ShownAnswer(verdict, text, None if lost else letter, flags, metrics={"exact_match": verdict}))
        prompt = (
            f"<|start_header_id|>user<|end_header_id|>\n\n{prose(chance, characters * 7 // 8)}\n{question}\n"
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        )
        yield ShownSample(
            task, f"mmlu_pro_chat.{subject}" if task == "meta_mmlu_pro_instruct" else None, number, f"{number:064x}", question,
            prompt, "C", tuple(given), None if number % 50 == 49 else float(chance.random() < 0.5),
            "The best answer is C.",
        )  # fmt: skip


def hostile_samples() -> list[ShownSample]:
    """Return every hostile text in every field of text. The last sample is a line of two million characters."""
    huge = "x" * 2_000_000
    return [
        ShownSample(
            f"task {text}", f"subtask {text}", number, "0" * 64, f"question {text}", f"prompt {text}", f"gold {text}",
            (ShownAnswer(0.0, f"answer {text}", f"extracted {text}", metrics={f"metric {text}"[:40]: text[:40]}),), 1.0,
            f"recorded {text}",
        )
        for number, text in enumerate((*HOSTILE, huge))
    ]  # fmt: skip
