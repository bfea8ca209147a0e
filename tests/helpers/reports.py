"""Invented reports and samples, for tests of how they are shown."""

from __future__ import annotations

import random
from collections.abc import Iterator

from meta_eval.report.model import (
    Alarm,
    Answer,
    Gate,
    Paired,
    Published,
    Report,
    Run,
    Sample,
    Score,
    Subtask,
    Task,
    Verdict,
)

WORDS = ("river", "stone", "engine", "harbour", "signal", "copper", "lantern", "meadow", "orbit", "timber", "valley")
SUBJECTS = (
    "biology", "business", "chemistry", "computer science", "economics", "engineering", "health", "history", "law",
    "math", "other", "philosophy", "physics", "psychology",
)  # fmt: skip

_PROSE = " ".join(random.Random(7).choices(WORDS, k=60_000))

# Each tries something else: a script, an event handler, the end of an element, markup, controls, reordering, half a
# surrogate pair, an entity, a link, a template's braces.
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


def published(value: float, *, averaging: str | None = None, comparable: bool = True, shots: str = "5") -> Published:
    return Published(value, "MMLU-Pro (CoT)", "acc", averaging, shots, comparable, "a model card", None)


def score(
    value: float,
    half: float,
    n: int,
    of: Published,
    verdict: Verdict = "holds",
    averaging: str = "micro",
    reason: str | None = None,
) -> Score:
    low, high = max(0.0, value - half), min(1.0, value + half)
    differences = (value - of.value, low - of.value, high - of.value) if of.comparable else (None, None, None)
    return Score(
        "exact_match,strict-match", averaging, n, value, low, high, of, *differences, False, 0.02, verdict, reason
    )


def make_report(*, gate: Gate | None = None, name: str = "Llama-3.1-8B-Instruct-FP8") -> Report:
    """A run in which everything occurs once: every verdict, alarms, a missing task, subtasks, numbers of other settings."""
    chance = random.Random(5)
    subtasks = []
    for number, subject in enumerate(SUBJECTS):
        other = chance.uniform(0.3, 0.7)
        ours = min(0.9, max(0.05, other + chance.gauss(0, 0.04)))
        subtasks.append(Subtask(f"mmlu_pro_chat.{subject}", 300 + 60 * number, ours, other, clear=number % 3 == 1))
    tasks = (
        Task(
            "meta_mmlu_pro_instruct", "mmlu_pro", "holds",
            "47.9 over 14 subtasks is 0.4 points under the published 48.3, which its interval (47.0 to 48.8) holds.",
            12032, 12032,
            scores=(
                score(0.479, 0.009, 12032, published(0.483, averaging="macro"), averaging="macro"),
                score(0.466, 0.0089, 12032, published(0.470, averaging="micro")),
            ),
            alarms=(Alarm("limit hit", "31 answers end where their limit of 1,024 tokens is.", 31, "limit hit"),),
            paired=Paired("ours", "Meta's", 12032, 10911, 534, 587, -0.0044, -0.0099, 0.0011, 0.121, 0.0078),
            subtasks=tuple(subtasks),
        ),
        Task(
            "meta_math_hard", "math_hard", "below",
            "21.4 is 4.0 points under the published 25.4: more than its interval (19.3 to 23.7) allows.",
            1324, 1324,
            scores=(score(0.214, 0.022, 1324, published(0.254, shots="0"), "below"),),
            alarms=(
                Alarm("unextracted", "212 answers (16.0 %) end without a boxed result.", 212, "unextracted"),
            ),
            paired=Paired("ours", "Meta's", 1324, 1189, 41, 94, -0.04, -0.057, -0.023, 0.0000061, 0.0246),
            gaps=("Meta graded with sympy and then a judge model, which cannot be repeated exactly.",),
        ),
        Task(
            "meta_ifeval", "ifeval__strict", "above",
            "86.1 is 5.7 points over the published 80.4: more than its interval (83.4 to 88.8) allows.",
            541, 541,
            scores=(score(0.861, 0.027, 541, published(0.804, averaging="mean of four"), "above", "mean of four"),),
            paired=Paired("ours", "Meta's", 541, 470, 50, 21, 0.0536, 0.02, 0.08, 0.0008, 0.05),
        ),
        Task(
            "meta_math", "math", "cannot say",
            "46.1; the published 48.0 was measured with 0 shots, and these prompts hold 4.",
            5000, 5000,
            scores=(score(0.461, 0.014, 5000, published(0.48, comparable=False, shots="0"), "cannot say", reason="it was measured with 0 shots"),),
        ),
    )  # fmt: skip
    facts = (
        ("pack", "8c1f0c5f3c0e2b8e"), ("evals dataset", "meta-llama/Llama-3.1-8B-Instruct-evals at 7a5c2f1"),
        ("backend", "vllm"), ("lm-eval", "0.4.13"), ("engine", "vllm 0.10.2"), ("duration", "2 h 14 min"),
        ("model_args", "pretrained=Llama-3.1-8B-Instruct-FP8,max_model_len=8192,add_bos_token=True,seed=42"),
    )  # fmt: skip
    return Report(
        "report", name, "1 of 5 tasks holds; 1 is below, 1 above; of 1 nothing can be said; 1 is missing.",
        (Run("this run", name, facts),), tasks, gate,
        notes=("meta_ifeval: 2 runs; the newest is taken: results_2026-02-03T04-05-06.json",),
        missing=("meta_gpqa_cot",),
    )  # fmt: skip


def make_comparison() -> Report:
    tasks = (
        Task(
            "meta_mmlu_pro_instruct", "mmlu_pro", "holds", "B is 0.3 points under A (-0.9 to +0.3).", 12032, 12032,
            paired=Paired("A", "B", 12032, 11300, 384, 348, -0.003, -0.009, 0.003, 0.37, 0.006),
            recovery=0.9937, recovery_low=0.981, recovery_high=1.006,
            subtasks=(Subtask("s.law", 900, 0.31, 0.33, False), Subtask("s.physics", 900, 0.52, 0.49, True)),
        ),
        Task(
            "meta_math_hard", "math_hard", "below", "B is 4.0 points under A (-5.7 to -2.3).", 1324, 1324,
            paired=Paired("A", "B", 1324, 1189, 94, 41, -0.04, -0.057, -0.023, 0.0000122, 0.0246),
            recovery=0.843, recovery_low=0.78, recovery_high=0.91,
        ),
    )  # fmt: skip
    runs = (
        Run("A", "Llama-3.1-8B-Instruct", (("lm-eval", "0.4.13"),)),
        Run("B", "Llama-3.1-8B-FP8", (("lm-eval", "0.4.13"),)),
    )
    return Report(
        "compare", "Llama-3.1-8B-FP8 against Llama-3.1-8B-Instruct", "1 of 2 tasks holds; 1 is below.", runs, tasks
    )


def prose(chance: random.Random, characters: int) -> str:
    """Words in no order, cut out of a text that is large enough to compress as badly as any."""
    begin = chance.randrange(len(_PROSE) - characters)
    return _PROSE[begin : begin + characters]


def make_samples(count: int, characters: int, *, answers: int = 1) -> Iterator[Sample]:
    """Samples of two tasks, of so many characters each; the same every time."""
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
            given.append(Answer(float(right and not lost), text, None if lost else letter, flags))
        prompt = (
            f"<|start_header_id|>user<|end_header_id|>\n\n{prose(chance, characters * 7 // 8)}\n{question}\n"
            "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
        )
        yield Sample(
            task, f"mmlu_pro_chat.{subject}" if task == "meta_mmlu_pro_instruct" else None, number, f"{number:064x}", question,
            prompt, "C", tuple(given), None if number % 50 == 49 else float(chance.random() < 0.5),
            "The best answer is C.", {"exact_match": given[-1].verdict},
        )  # fmt: skip


def hostile_samples() -> list[Sample]:
    """Every hostile text in every place where a text can be; the last is one line of two million characters."""
    huge = "x" * 2_000_000
    return [
        Sample(
            f"task {text}", f"subtask {text}", number, "0" * 64, f"question {text}", f"prompt {text}", f"gold {text}",
            (Answer(0.0, f"answer {text}", f"extracted {text}"),), 1.0, f"recorded {text}", {f"metric {text}"[:40]: text[:40]},
        )
        for number, text in enumerate((*HOSTILE, huge))
    ]  # fmt: skip
