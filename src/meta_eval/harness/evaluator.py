"""Runs a task of a pack through lm-eval's evaluator with given answers, without output.

lm-eval's own code does everything that follows generation: task, filters, metrics. The function is `evaluate`.
`simple_evaluate` would also make a model, and ask torch, pip and git about this machine for a results file that verify
does not write.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import name_error, name_path, quoted
from meta_eval.base.errors import PackError, TemplateError, UserError
from meta_eval.base.isolation import isolate_code, silence_output
from meta_eval.base.logs import report_progress
from meta_eval.harness.evaluator_patches import (
    AlikeDraws,
    keep_templates,
    replace_bootstrap,
    replace_hashing,
    seed_language_detection,
    share_settings,
)
from meta_eval.harness.sample_parser import SAMPLE_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

    from meta_eval.harness.replay import RecordedResponses

Tell = Callable[[logging.LogRecord], None]


@dataclass(slots=True)
class Evaluated:
    """The result of evaluating a task."""

    samples: list[dict[str, Any]]
    """lm-eval's samples, for each doc and filter; docs are shared."""

    scores: dict[str, float]
    """The task's aggregated scores by ``metric,filter``."""

    filters: tuple[str, ...]
    """The names of the filters, in the task's order."""

    failures: dict[int, str]
    """By index of the doc, what graders logged: why an answer could not be graded."""

    extract: Callable[[str], str | None] | None
    """The template's own ``extract(output)``, which gives the answer that its scorer uses; None if filters extract it.
    """

    results: dict[str, Any]
    """The rest of lm-eval's results, as in a results file."""


class Evaluator:
    """Loads and evaluates the tasks of a pack with lm-eval; ``pack`` is its folder."""

    def __init__(self, pack: Path) -> None:
        self.pack = pack
        with isolate_code(pack), silence_libraries():
            from lm_eval.tasks import TaskManager

            self._manager = TaskManager(include_path=str(pack), include_defaults=False)
        keep_templates()
        self._unlisted: dict[str, Any] = {}

    @contextlib.contextmanager
    def at_work(self, name: str, tell: Tell = lambda _: None) -> Iterator[None]:
        """Run lm-eval on a task silently, as `silence_libraries`, and turn its errors into a single line.

        Errors of pack_docs and the templates already carry a hint, those of pyarrow none.
        """
        try:
            with seed_language_detection(), isolate_code(self.pack), silence_libraries(tell):
                yield
        except UserError:
            raise
        except Exception as error:
            where = f"{self.pack}, task {name}"
            if type(error).__name__ == "DatasetGenerationError" and isinstance(error.__cause__, Exception):
                error = error.__cause__
            if lacks := explain_lacking_part(error, where):
                raise lacks from None
            last = traceback.extract_tb(error.__traceback__)[-1]
            file = Path(last.filename)
            is_of_pack = file.is_relative_to(self.pack.resolve())
            if is_of_pack and type(error) in (ImportError, LookupError, ValueError) and str(error):
                said = str(error).replace(f"{self.pack.resolve()}{os.sep}", "")
                raise PackError(said.rstrip("."), where=where) from None  # it refuses something
            raise PackError(
                f"lm-eval cannot run it: {name_error(error)} ({name_path(file) if is_of_pack else file.name}, line "
                f"{last.lineno})",
                where=where,
                hint=f"Look at the settings and functions of {name}: where they are yours, mend them and run "
                "`meta-eval prepare` again; `meta-eval doctor` says what is missing on this machine",
            ) from None

    def load(self, name: str, *, listed: bool = True) -> Any:
        """Load lm-eval's task object, with docs as a list that all samples share.

        Args:
            name: The task.
            listed: False leaves the docs on disk, for callers that read them once and grade nothing. Such a task is
                cached for later calls. The caller may change what it gets.

        Raises:
            PackError: lm-eval cannot load it.
        """
        loaded = self._unlisted.get(name) or self._load(name)
        if not listed:
            self._unlisted[name] = loaded
        task = copy.copy(loaded)
        task._config = copy.copy(loaded._config)
        del loaded
        if listed:
            _list_docs(task)
        return task

    def _load(self, name: str) -> Any:
        if name not in self._manager.all_tasks:
            raise PackError(
                f"lm-eval finds no task {name!r} in it", where=str(self.pack), hint="Run `meta-eval prepare` again"
            )
        with self.at_work(name):
            loaded = (
                self._manager.load([name])["tasks"]
                if hasattr(self._manager, "load")  # from 0.4.12 on
                else self._manager.load_task_or_group([name])
            )
            task = loaded[name]
            split = task.config.test_split or task.config.validation_split
            # lm-eval's references are dropped, so that each batch is freed once its docs are listed.
            task.dataset, task.task_docs = {split: task.eval_docs}, None
        task.config.process_docs = None  # they are made
        return task

    def instances(self, name: str, task: Any, **how: Any) -> list[Any]:
        """Build lm-eval's requests of all docs of a task, as its evaluator does for any model.

        Args:
            name: The task.
            task: The result of `load`; it does not keep the requests.
            how: Further arguments of lm-eval's ``build_all_requests``: a chat template.

        Raises:
            PackError: lm-eval cannot build them.
        """
        with self.at_work(name):
            # As the evaluator calls it without a cache of requests.
            task.build_all_requests(limit=None, samples=None, rank=0, world_size=1, **how)
        built: list[Any] = task.instances
        task._instances = None
        return built

    def evaluate(
        self,
        name: str,
        *,
        task: Any,
        answers: Sequence[RecordedResponses] | None = None,
        indices: Sequence[int] | None = None,
        allow_code: bool = False,
        bootstrap_iters: int = 0,
        hashed: bool = True,
    ) -> Evaluated:
        """Answer and score.

        Args:
            name: The task.
            task: The result of `load`.
            answers: Responses instead of the recorded answers, an item for each scored doc.
            indices: The docs to score, sorted; None for all.
            allow_code: Run code that the task marks as unsafe.
            bootstrap_iters: lm-eval's, for standard errors; 0 for none.
            hashed: Whether to compute the hashes of samples, which takes longer than scoring.

        Raises:
            PackError: lm-eval cannot evaluate it.
            TemplateError: The scorer raises.
        """
        watch = _Watch(name, task, len(indices) if indices is not None else len(task.eval_docs))
        patches = (replace_hashing(hashed), replace_bootstrap(name), share_settings())
        with self.at_work(name, watch.record), contextlib.ExitStack() as stack, watch.draws:
            for patch in patches:
                stack.enter_context(patch)
            from lm_eval.evaluator import evaluate

            from meta_eval.harness.replay import ReplayLM

            results: Any = evaluate(
                lm=ReplayLM(answers),
                task_dict={name: task},
                samples={name: list(indices)} if indices is not None else None,
                bootstrap_iters=bootstrap_iters,
                log_samples=True,
                confirm_run_unsafe_code=allow_code,
            )
        # lm-eval numbers the docs that it is given; with a selection, these are the original indices.
        numbers = list(indices) if indices is not None else list(range(watch.docs))
        return Evaluated(
            results.pop("samples")[name],
            {
                key: float(value)
                for key, value in results["results"][name].items()
                if "," in key and "_stderr," not in key and isinstance(value, (int, float))
            },
            watch.filters,
            {numbers[position]: text for position, text in watch.failures.items()},
            watch.extract,
            results,
        )


# Parts that scorers need besides their code. By a word of the error when it is missing: message and hint.
_PARTS = {
    "HF_ALLOW_CODE_EVAL": (
        "its scorer runs programs that a model wrote, and HF_ALLOW_CODE_EVAL=1 is not set",
        "Set HF_ALLOW_CODE_EVAL=1 where such programs may run, and give --allow-code",
    ),
    "punkt_tab": (
        "its scorer needs nltk's punkt_tab, which is not on this machine",
        "Run: python -m nltk.downloader punkt_tab",
    ),
}


def explain_lacking_part(error: Exception, where: str | None = None) -> PackError | None:
    """The error for a part that a scorer needs and this machine lacks; None for any other error.

    The libraries' own messages are long: code_eval of `evaluate` raises a ValueError, nltk a LookupError.
    """
    if not isinstance(error, (LookupError, ValueError)) or "\n" not in str(error):
        return None
    part = next((part for part in _PARTS if part in str(error)), None)
    return None if part is None else PackError(_PARTS[part][0], where=where, hint=_PARTS[part][1])


def _list_docs(task: Any) -> None:
    """Replace the docs of a task by a list. lm-eval would read every doc again for each filter; a list is read once,
    and samples refer to it."""
    ((split, docs),) = task.dataset.items()
    if isinstance(docs, list):
        return
    batches = docs.with_format("arrow")[:].to_batches(1024)
    task.dataset = docs = None
    task.dataset = {split: _listed(batches)}


def _listed(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Convert docs from arrow. Each batch is released once converted."""
    import pyarrow as pa

    docs: list[dict[str, Any]] = []
    batches.reverse()
    while batches:
        batch = batches.pop()
        names, columns = batch.schema.names, [column.to_pylist() for column in batch.columns]
        docs += [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]  # quicker than its own
        del batch, columns
        pa.default_memory_pool().release_unused()
    return docs


class _Watch:
    """Wraps a task's ``process_results`` to count progress and to collect what a grader logs about a doc.

    A grader that draws random numbers draws the same for every doc: lm-eval's IFEval draws a letter for two questions.
    """

    def __init__(self, name: str, task: Any, docs: int) -> None:
        self.docs = docs
        self.filters = tuple(str(ensemble.name) for ensemble in task._filters)
        self.failures: dict[int, str] = {}
        self.extract: Callable[[str], str | None] | None = None
        self._done, self._total = 0, docs * len(self.filters)
        self.draws = AlikeDraws()
        self._inner = task.process_results
        scorer = task.config.process_results
        if callable(scorer):
            self.extract = getattr(scorer, "__globals__", {}).get("extract")
        self._name = name
        self._where = f"{task.config.task}: process_results"
        task.process_results = self

    def __call__(self, doc: Mapping[str, Any], results: Any) -> Any:
        self.draws.begin_doc()
        try:
            graded = self._inner(doc, results)
        except Exception as error:
            if lacks := explain_lacking_part(error):
                raise lacks from None
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise TemplateError(
                f"fails with {name_error(error)} (question hash {doc.get('input_question_hash')})",
                where=f"{self._where}, {name_path(last.filename)}, line {last.lineno}",
                hint="Change the scorer: it must not raise on any answer",
            ) from error
        finally:
            self._done += 1
            if self._done == self._total:  # what follows draws as if no doc had
                self.draws.restore()
            report_progress(self._name, self._done, self._total)
        if not isinstance(graded, dict) or not all(isinstance(name, str) for name in graded):
            what = f"returns no metrics by name, but {quoted(graded)}"
            raise TemplateError(what, where=self._where, hint="Return a dict: the name of each metric, and its value")
        if taken := SAMPLE_FIELDS.intersection(graded):
            what = f"returns the metric {min(taken)!r}, the name of a field of every sample"
            raise TemplateError(what, where=self._where, hint="Give the metric another name, in metric_list, too")
        return graded

    def record(self, record: logging.LogRecord) -> None:
        if record.name.startswith("meta_eval.") and self._done < self._total:
            self.failures[self._done % self.docs] = record.getMessage()


# Loggers with warnings that do not matter here.
_NOISY = ("lm_eval", "datasets", "huggingface_hub", "transformers")


class _Collector(logging.Handler):
    """Collects the log records of this thread.

    It drops these warnings itself. Changing a logger's level would clear the level cache of every logger, which takes
    longer than many tasks.
    """

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell, self._thread = tell, threading.get_ident()

    def is_mine(self) -> bool:
        """Whether this is the thread."""
        return threading.get_ident() == self._thread

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_mine() and (record.levelno >= logging.ERROR or record.name.partition(".")[0] not in _NOISY):
            self._tell(record)


@contextlib.contextmanager
def silence_libraries(tell: Tell = lambda _: None) -> Iterator[None]:
    """Keep logs, warnings and progress bars of lm-eval and its libraries in this thread off the terminal.

    Args:
        tell: Receives log records from WARNING on; from these libraries from ERROR on.
    """
    with _collected(tell), warnings.catch_warnings(), silence_output():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _collected(tell: Tell) -> Iterator[None]:
    root = logging.getLogger()
    noisy = [logging.getLogger(name) for name in _NOISY]
    levels = [(logger, logger.level) for logger in (root, *noisy)]
    handlers = [(logger, handler) for logger in (root, *noisy) for handler in logger.handlers]
    collector = _Collector(tell)

    def of_others(_: logging.LogRecord) -> bool:
        return not collector.is_mine()

    for _, handler in handlers:
        handler.addFilter(of_others)
    root.addHandler(collector)
    try:
        yield
    finally:
        root.removeHandler(collector)
        for _, handler in handlers:
            handler.removeFilter(of_others)
        for logger in noisy:  # loggers of modules that were just imported
            for handler in logger.handlers[:]:
                if (logger, handler) not in handlers:
                    logger.removeHandler(handler)
        for logger, level in levels:
            if logger.level != level:
                logger.setLevel(level)
