"""Writes results with lm_eval's own tracker: all files or none.

It adds ``answer`` to each sample, and ``config.meta_eval`` to the results file. Other programs ignore these keys.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from meta_eval.base.errors import FREE_SPACE, PackError
from meta_eval.base.inputs import MAX_DATA, open_data, read_regular
from meta_eval.base.outputs import make_folder
from meta_eval.harness.answer import Answer, add_counts, merge_answers
from meta_eval.harness.evaluator import Evaluated, silence_libraries
from meta_eval.harness.evaluator_patches import replace_dumps
from meta_eval.harness.settings import Settings, TokenPrices

# Bytes read at a time.
_BLOCK = 2**20

# Fields of each sample from which lm-eval computes a task's hash.
_HASHES = ("doc_hash", "prompt_hash", "target_hash")

# The parts of lm-eval's results that are keyed by task.
_BY_TASK = ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples", "group_subtasks")

# lm-eval's tracker only logs write errors and continues.
_HALF = "lm_eval wrote nothing or half a file there; the disk may be full, or memory ran out"


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens and seconds of some answers."""

    answers: int
    """Number of answers."""

    prompt_tokens: int | None
    """Sum over the answers that report it. None if none does."""

    completion_tokens: int | None
    """Sum over the answers that report it. None if none does."""

    seconds: float | None
    """Time during which at least one answer was being made. Parallel shards count once, pauses do not count. None
    unless every answer has times."""

    tokens_per_second: float | None
    """Tokens of texts divided by seconds. None unless every text has both."""

    median_seconds: float | None = None
    """Median time from a request to its answer. None unless every answer has times."""

    cost: float | None = None
    """Price of these seconds and of all tokens, in the unit of the given prices. None without prices, and where times
    or counts are unknown."""

    @classmethod
    def of(cls, answers: Sequence[Answer], prices: Settings | None = None) -> Speed:
        texts = [answer for answer in answers if answer.text is not None]
        tokens, seconds = [answer.completion_tokens for answer in texts], _seconds(texts)
        all_counted, wall_seconds = bool(texts) and None not in tokens, _seconds(answers)
        return cls(
            answers=len(answers),
            prompt_tokens=add_counts(answer.prompt_tokens for answer in answers),
            completion_tokens=add_counts(tokens),
            seconds=wall_seconds,
            tokens_per_second=(add_counts(tokens) or 0) / seconds if all_counted and seconds else None,
            median_seconds=_median_seconds(answers),
            cost=None if prices is None else _cost(answers, wall_seconds, prices),
        )


def _cost(answers: Sequence[Answer], wall_seconds: float | None, prices: Settings) -> float | None:
    """The price of the time of all machines, and of the tokens that an endpoint charges for."""
    costs: list[float | None] = []
    if prices.price_per_hour is not None:
        costs.append(None if wall_seconds is None else wall_seconds / 3600 * prices.price_per_hour)
    if prices.price_per_million_tokens is not None:
        costs += [_token_cost(answer, prices.price_per_million_tokens) for answer in answers]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


def _token_cost(answer: Answer, prices: TokenPrices) -> float | None:
    if answer.prompt_tokens is None or answer.completion_tokens is None:
        return None
    cached = min(answer.cached_tokens or 0, answer.prompt_tokens) if prices.cached is not None else 0
    tokens = (answer.prompt_tokens - cached) * prices.prompt + answer.completion_tokens * prices.completion
    return (tokens + cached * (prices.cached or 0.0)) / 1e6


def _seconds(answers: Sequence[Answer]) -> float | None:
    spans = [answer.span for answer in answers if answer.span]
    return _covered(spans) if len(spans) == len(answers) else None


def _median_seconds(answers: Sequence[Answer]) -> float | None:
    spans = [answer.span[1] - answer.span[0] for answer in answers if answer.span]
    return median(spans) if spans and len(spans) == len(answers) else None


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


class Writer:
    """The results of a run. Files are collected in a staging folder; an unfinished write leaves nothing.

    Args:
        output: As lm_eval's ``--output_path``.
        model: The model. Its name becomes the name of the folder.
    """

    def __init__(self, output: Path, model: str) -> None:
        self._output, self._model = output, model
        self._tree: dict[str, Any] = {part: {} for part in _BY_TASK}
        self._hashes: dict[str, list[dict[str, str]]] = {}
        self._samples: dict[str, Path] = {}

    def __enter__(self) -> Writer:
        with silence_libraries():
            from lm_eval.loggers import EvaluationTracker
        try:
            make_folder(self._output)
            self._folder = Path(tempfile.mkdtemp(prefix=".grade-", dir=self._output))
        except OSError as error:
            raise _unwritable(self._output, error) from None
        self._tracker: Any = EvaluationTracker(output_path=str(self._folder))
        self._tracker.general_config_tracker.log_experiment_args(
            model_source="answers",
            model_args={"pretrained": self._model},
            system_instruction=None,
            chat_template=None,
            fewshot_as_multiturn=False,
        )
        self._tracker.date_id = "unfinished"
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, name: str, evaluated: Evaluated, answers: Mapping[int, Sequence[Answer]]) -> None:
        """Write the samples of a task.

        Raises:
            PackError: They cannot be written.
        """
        for sample in evaluated.samples:
            sample["answer"] = {**merge_answers(answers[sample["doc_id"]]), **sample.get("answer", {})}
        self._hashes[name] = [{key: sample[key] for key in _HASHES} for sample in evaluated.samples]
        with silence_libraries():
            from lm_eval.loggers import evaluation_tracker

            with replace_dumps(evaluation_tracker):
                self._tracker.save_results_samples(task_name=name, samples=evaluated.samples)
        self._samples[name] = self._written(f"samples_{name}_unfinished.jsonl")
        with open_data(self._samples[name]) as file:
            if sum(block.count(b"\n") for block in iter(partial(file.read, _BLOCK), b"")) != len(evaluated.samples):
                raise _unwritable(self._output)
        for part, tree in self._tree.items():
            tree.update(evaluated.results.get(part) or {})

    def finish(self, *, engine: str, limit: float | None, started: float, identity: Mapping[str, Any]) -> Path:
        """Write the results file, move all files into place, and return the path of the results file.

        Args:
            engine: The engine that answered.
            limit: ``--limit`` of the pack.
            started: Seconds since 1970.
            identity: How the answers were made: the fields of `Speed`, and edited files of the pack.

        Raises:
            PackError: They cannot be written.
        """
        import lm_eval

        self._tree["config"] = {
            "model": engine,
            "model_args": {"pretrained": self._model},
            "limit": limit,
            "gen_kwargs": None,
            "meta_eval": dict(identity),
        }
        self._tree["date"] = started
        self._tree["lm_eval_version"] = lm_eval.__version__
        if identity["seconds"]:
            # The time to answer, not the time to grade.
            self._tracker.general_config_tracker.start_time = time.perf_counter() - identity["seconds"]
        with silence_libraries():
            self._tracker.save_results_aggregated(results=self._tree, samples=self._hashes)
        name = f"results_{self._tracker.date_id}.json"
        results = self._written(name)
        try:
            json.loads(read_regular(results, limit=MAX_DATA))
        except ValueError:
            raise _unwritable(self._output) from None
        folder = self._output / results.parent.name
        try:
            make_folder(folder)
            for task, samples in self._samples.items():
                samples.replace(folder / f"samples_{task}_{self._tracker.date_id}.jsonl")
            # Moved last: samples without a results file count as incomplete.
            return results.replace(folder / name)
        except OSError as error:
            raise _unwritable(self._output, error) from None

    def _written(self, name: str) -> Path:
        """The path of a file that the tracker wrote. The tracker only logs a failure."""
        path = next(self._folder.rglob(name), None)
        if path is None:
            raise _unwritable(self._output)
        return path


def _unwritable(output: Path, error: OSError | None = None) -> PackError:
    """The error of results that cannot be written; without ``error`` lm_eval's tracker knows more."""
    if error is None:
        return PackError(f"cannot be written ({_HALF})", where=str(output), hint=FREE_SPACE)
    place = error.filename if isinstance(error, (FileExistsError, NotADirectoryError)) else output
    return PackError(f"cannot be written ({error.strerror})", where=str(place))
