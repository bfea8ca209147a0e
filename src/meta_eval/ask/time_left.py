"""Measures the speed of a run and estimates the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from meta_eval.base.inputs import read_table
from meta_eval.base.logs import report_progress
from meta_eval.harness.answer import Answer
from meta_eval.pack.manifest import Manifest

# Reading a prompt token costs about a thirtieth of writing a token, on measured engines. This only has to separate
# tasks with long prompts from tasks with long answers.
_PROMPT = 1 / 30

# Answers of a task from which its own mean length counts more than that of the recorded answers. Also the number of
# answers, and of durations of an answer, after which the speed is known.
_ENOUGH = 32
_WAVES = 2

# Characters per token of English in Llama 3's tokenizer.
_CHARACTERS = 4.4


class Pace:
    """Counts answers, and estimates the remaining time.

    Args:
        left: Number of pending requests by task.
        expected: Expected tokens of an answer by task, from `estimate_tokens`.
        clock: Seconds.
    """

    def __init__(
        self,
        left: Mapping[str, int],
        expected: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left, self._expected, self._clock = dict(left), expected, clock
        self._total = sum(left.values())
        self._tokens = {name: [0, 0] for name in left}  # answers, their tokens
        self._prompts = [0, 0]  # prompts, their tokens
        self.failed = 0
        self.begin()

    def begin(self) -> None:
        """Measure the speed from now on. Earlier requests, such as the canary, have other delays."""
        self._began = self._clock()
        self._answers = self._written = self._read = 0
        self._work = self._waited = 0.0

    def add(self, answer: Answer) -> None:
        """Count an answer."""
        task = answer.task
        self._left[task] -= 1
        if answer.error is not None:
            self.failed += 1
            return
        written = answer.completion_tokens or 0
        fresh = max(0, (answer.prompt_tokens or 0) - (answer.cached_tokens or 0))
        for counts, tokens in ((self._tokens[task], written), (self._prompts, fresh)):
            counts[0] += 1
            counts[1] += tokens
        self._answers += 1
        self._written += written
        self._read += fresh
        self._work += written + fresh * _PROMPT
        self._waited += (answer.ended or 0.0) - (answer.started or answer.ended or 0.0)
        done = self._total - sum(self._left.values())
        report_progress(": ".join(filter(None, (task, self.describe()))), done, self._total)

    def describe(self) -> str:
        """``1.2M tokens, 3,400 tokens a second, 12 min left``. Prompt tokens count if an engine writes none."""
        tokens = sum(written for _, written in self._tokens.values())
        name, total, new = (
            ("tokens", tokens, self._written) if tokens else ("prompt tokens", self._prompts[1], self._read)
        )
        words = [f"{_short(total)} {name}"] if total else []
        words += [f"{_rate(new / self._seconds)} {name} a second"] if new else []
        left = self.seconds_left()
        if left is not None:
            words.append(f"{format_duration(left)} left")
        if self.failed:
            words.append(f"{self.failed:,} failed")
        return ", ".join(words)

    def seconds_left(self) -> float | None:
        """The estimated remaining seconds; None without data."""
        if not self._work or self._answers < _ENOUGH or self._seconds * self._answers < _WAVES * self._waited:
            return None
        prompt = self._prompts[1] / self._prompts[0] * _PROMPT
        work = sum(count * (self._mean(task) + prompt) for task, count in self._left.items())
        return work * self._seconds / self._work

    @property
    def _seconds(self) -> float:
        return max(self._clock() - self._began, 1e-9)

    def _mean(self, task: str) -> float:
        answers, written = self._tokens[task]
        return written / answers if answers >= _ENOUGH else self._expected.get(task, 0.0) * self._ratio()

    def _ratio(self) -> float:
        """The length of this model's answers so far, relative to the recorded ones."""
        pairs = [
            (written, answers * self._expected.get(task, 0.0)) for task, (answers, written) in self._tokens.items()
        ]
        expected = sum(of for _, of in pairs)
        return sum(written for written, of in pairs if of) / expected if expected else 1.0


def estimate_tokens(pack: Path, manifest: Manifest, task: str) -> float:
    """The mean length of a task's recorded answers, in tokens; 0 for choices and without recorded answers."""
    import pyarrow.compute as pc

    file = manifest.tasks[task].docs_file
    if file is None or "recorded_output" not in manifest.tasks[task].columns:
        return 0.0
    if "continuations" in manifest.tasks[task].columns:
        return 0.0
    texts = read_table(pack / file, columns=["recorded_output"]).column(0)
    mean = pc.mean(pc.utf8_length(texts)).as_py()
    return (mean or 0.0) / _CHARACTERS


def format_duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10 else f"{per_second:.2g}"


def _short(count: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 10 * size or (count >= size and letter != "k"):
            return f"{count / size:.1f}{letter}"
    return f"{count:,.0f}"
