"""What lm-eval's functions are replaced by while it evaluates: random numbers, bootstraps, and the JSON of samples.

- lm-eval bootstraps some standard errors in a pool of forked processes, which may hang in a process with threads or
  signal handlers. Here this process draws the same, so the numbers are the same.
- lm-eval hashes each doc as indented JSON, again for each filter. Python writes indented JSON without its C encoder,
  which takes longer than scoring if prompts are long. It also escapes long texts character by character.
- lm-eval compiles the Jinja templates of a task anew for each doc. Here each is compiled once.
- lm-eval copies the generation settings of a task for each doc. Here its requests share them: given answers change
  none.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from json.encoder import encode_basestring
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson

from meta_eval.base.logs import report_progress

# As in lm-eval: a new generator for each thousand draws.
_CHUNK = 1000

# Compiled templates. A task has some five.
_TEMPLATES = 1024


def keep_templates() -> None:
    """Let lm-eval keep the templates that it has compiled. A compiled template has no state."""
    from lm_eval import utils

    if not hasattr(utils.env.from_string, "cache_info"):
        utils.env.from_string = lru_cache(maxsize=_TEMPLATES)(utils.env.from_string)


@contextmanager
def share_settings() -> Iterator[None]:
    """Let the requests that lm-eval builds within the block share the generation settings of their task."""
    from lm_eval.api import task

    if "deepcopy" not in vars(task):
        yield
        return
    with _replaced(task, "deepcopy", lambda settings: settings):
        yield


@contextmanager
def replace_bootstrap(name: str) -> Iterator[None]:
    """Replace lm-eval's bootstrap within the block.

    Args:
        name: The task.
    """
    from lm_eval.api import metrics

    def estimate(metric: Callable[[Sequence[Any]], float], values: Sequence[Any], iters: int) -> float:
        drawn: list[float] = []
        for resamples in draw_resamples(values, iters):
            report_progress(f"{name}: standard error of {metric.__name__}", len(drawn), iters)
            drawn.append(metric(resamples))
        return float(metrics.sample_stddev(drawn))

    original = metrics.bootstrap_stderr
    metrics.bootstrap_stderr = estimate
    try:
        yield
    finally:
        metrics.bootstrap_stderr = original


def draw_resamples(values: Sequence[Any], iters: int) -> Iterator[list[Any]]:
    """Resample values with replacement, ``iters`` times, with the draws of lm-eval's ``bootstrap_stderr``."""
    size = min(_CHUNK, iters)
    for number in range(iters // size):
        generator = random.Random(number)  # noqa: S311 (a statistic)
        for _ in range(size):
            yield generator.choices(values, k=len(values))


# lm-eval's own for `random`. It seeds once, so that what a grader draws for a doc depends on the docs before it.
_SEEDED = random.Random(0).getstate()  # noqa: S311 (of graders)


class AlikeDraws:
    """Lets `random` draw the same numbers for each doc of a block.

    To read and to set its state takes longer than many a grader, so it is restored once, after all docs.
    """

    def __init__(self) -> None:
        self._before: Any = None

    def __enter__(self) -> AlikeDraws:
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def begin_doc(self) -> None:
        """Draw from the start again."""
        if self._before is None:
            self._before = random.getstate()
        random.setstate(_SEEDED)  # quicker than to seed

    def restore(self) -> None:
        """Restore the state from before the first doc."""
        if self._before is not None:
            random.setstate(self._before)
            self._before = None


@contextlib.contextmanager
def seed_language_detection() -> Iterator[None]:
    """Let langdetect, if a grader has imported it, find the same language of a text each time.

    lm-eval's IFEval asks it for the language of an answer. Unseeded, it takes short texts for one language or another.
    """
    langdetect = sys.modules.get("langdetect")
    if langdetect is None:
        yield
        return
    factory = langdetect.DetectorFactory
    before, factory.seed = factory.seed, 0
    try:
        yield
    finally:
        factory.seed = before


# Characters from which orjson escapes a text faster than `json`, with its call.
_LONG = 100

# Characters from which its memory is asked for first: at most so many bytes a character, with the text in UTF-8.
_LARGE, _ROOM = 2**14, 64

_CONSTANTS = {None: "null", True: "true", False: "false"}


class _OtherError(TypeError):
    """A value that is left to `json`."""


@contextlib.contextmanager
def replace_hashing(is_needed: bool) -> Iterator[None]:
    """Replace lm-eval's hashing within the block.

    Args:
        is_needed: Whether ``doc_hash``, ``prompt_hash`` and ``target_hash`` of samples are needed. They then equal
            lm-eval's own, otherwise they are empty. An lm-eval with another way of hashing is left unchanged.
    """
    from lm_eval import evaluator

    hashing: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if not is_needed and "hash_string" in vars(evaluator):
        hashing = _replaced(evaluator, "hash_string", _nothing)
    with hashing, replace_dumps(evaluator, dump_json if is_needed else _nothing):
        yield


@contextlib.contextmanager
def replace_dumps(module: ModuleType, dumps: Callable[..., str] | None = None) -> Iterator[None]:
    """Replace ``json.dumps`` in a module within the block.

    Args:
        module: A module that has imported ``json``; any other is left unchanged.
        dumps: The replacement; None for `dump_json`.
    """
    if "json" not in vars(module):
        yield
        return
    with _replaced(module, "json", SimpleNamespace(**{**vars(json), "dumps": dumps or dump_json})):
        yield


@contextlib.contextmanager
def _replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    original = vars(module)[name]
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def dump_json(value: Any, **settings: Any) -> str:
    """``json.dumps``, fast where ``ensure_ascii`` is False and ``indent`` 2 or None."""
    indent = settings.get("indent")
    if settings.keys() <= {"indent", "ensure_ascii", "default"} and not settings.get("ensure_ascii", True):
        with contextlib.suppress(_OtherError):
            if indent is None:
                return _written(value, None)
            if indent == 2:
                return _written(value, "\n")
    return json.dumps(value, **settings)


def _written(value: Any, margin: str | None) -> str:
    """Write JSON of dicts with text keys, lists, texts, numbers, booleans and None.

    Args:
        value: The tree.
        margin: What each line begins with, from the line break on; None for a single line.

    Raises:
        _OtherError: There is a value of another type.
    """
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is bool or value is None:
        return _CONSTANTS[value]
    if kind is int or (kind is float and value - value == 0):
        return repr(value)
    inner = None if margin is None else margin + "  "
    if kind is dict and all(type(key) is str for key in value):
        return _joined(
            "{}", [f"{encode_basestring(key)}: {_written(item, inner)}" for key, item in value.items()], margin
        )
    if kind is list or kind is tuple:
        return _joined("[]", [_written(item, inner) for item in value], margin)
    raise _OtherError


def _joined(brackets: str, parts: list[str], margin: str | None) -> str:
    if not parts or margin is None:
        return f"{brackets[0]}{', '.join(parts)}{brackets[1]}"
    inner = margin + "  "
    return f"{brackets[0]}{inner}{f',{inner}'.join(parts)}{margin}{brackets[1]}"


def _quoted(text: str) -> str:
    if len(text) >= _LONG:
        if len(text) > _LARGE:
            bytearray(_ROOM * len(text))  # orjson would end the process where memory runs out; this is a MemoryError
        with contextlib.suppress(orjson.JSONEncodeError):  # a lone surrogate
            return orjson.dumps(text).decode()
    return str(encode_basestring(text))


def _nothing(*_: Any, **__: Any) -> str:
    return ""
