"""Tasks that are ready for a pack, what they share while they are prepared, and those that are left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from meta_eval.base.errors import ConfigError, UnreachableError, UserError, join_errors
from meta_eval.base.logs import log
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.base.worker import ran_out_of_memory
from meta_eval.pack.manifest import LengthEntry
from meta_eval.pack.prompt_lengths import BYTES_PER_TOKEN, Prompts, find_tokenizer, measure_longest_prompt

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

    from meta_eval.pack.config import Config
    from meta_eval.pack.manifest import TaskEntry
    from meta_eval.pack.templates.spec import Template


_T = TypeVar("_T")


@dataclass(slots=True)
class LeftOut:
    """The tasks that stay out of a pack."""

    errors: dict[str, UserError] = field(default_factory=dict)
    """What is wrong with each, in the order in which it was found."""

    @property
    def reasons(self) -> dict[str, str]:
        """The reason for each left-out task, by name: a line that also says what to do."""
        return {name: str(error) for name, error in self.errors.items()}

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Work on a task in this block. A user error in it leaves the task out.

        Raises:
            UserError: Of no fault of the task: the hub cannot be reached, or memory ran out.
        """
        try:
            yield
        except UserError as error:
            if isinstance(error, UnreachableError) or ran_out_of_memory(error):
                raise
            self.errors[name] = error

    def make_each(self, names: Collection[str], make: Callable[[str], _T]) -> dict[str, _T]:
        """Make something for each task; tasks that fail are left out.

        Raises:
            UserError: All fail; their errors in one.
        """
        results = {}
        for name in names:
            with self.task(name):
                results[name] = make(name)
        self.check(results)
        return results

    def check(self, prepared: Sized) -> None:
        """Raises:
        UserError: No task is left: the errors of those that were left out, in one.
        """
        if not prepared and self.errors:
            raise _join_alike(self.errors)

    def without(self, groups: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The groups without the tasks that are left out. Empty groups are dropped."""
        remaining = {
            name: tuple(member for member in members if member not in self.errors) for name, members in groups.items()
        }
        return {name: members for name, members in remaining.items() if members}


def _join_alike(errors: Mapping[str, UserError]) -> UserError:
    """Make a single error of those of tasks. Tasks with the same error, but for the name, are listed in it."""
    alike: dict[tuple[type, *tuple[str | None, ...]], list[str]] = {}
    for name, error in errors.items():
        texts = (text and text.replace(name, "\0") for text in (error.where, error.what, error.hint))
        alike.setdefault((type(error), *texts), []).append(name)
    joined = []
    for name, *others in alike.values():
        error = errors[name]
        same = f"; the same for {join_names(others, NAMED)}" if others else ""
        joined.append(type(error)(f"{error.what}{same}", where=error.where, hint=error.hint))
    return join_errors(joined)


@dataclass
class PrepareContext:
    """What the tasks of a pack share. Each part is read once."""

    config: Config
    """What prepare was asked for."""

    left_out: LeftOut = field(default_factory=LeftOut)
    """The tasks that cannot be prepared."""

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None if it is not on this machine."""
        return find_tokenizer(self.config.tokenizer_of())


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task, ready for a pack."""

    name: str
    """Its name."""

    entry: TaskEntry
    """Its entry in the manifest."""

    template_files: Mapping[str, bytes]
    """Unchanged files of the template by path; tasks may share them."""

    files: Mapping[str, bytes]
    """Files made for this task: its YAML, its docs and the module that reads them."""

    scores_ifeval: bool = False
    """Whether its docs name instructions of IFEval, some of which need nltk's Punkt model."""

    needs_punkt: bool = False
    """Whether a doc of it names such an instruction."""


def measure_length(template: Template, docs: pa.Table, context: PrepareContext) -> LengthEntry:
    """Measure the longest prompt. One that does not fit the context is an error."""
    model, limit = context.config.tokenizer_of(), context.config.max_model_len
    answer = template.max_gen_toks
    length = measure_longest_prompt(Prompts.of_table(docs), limit - answer, lambda: context.tokenizer)
    estimate = length.how == "estimated"
    if length.tokens + answer > limit:
        digest = docs.column("input_question_hash")[length.doc].as_py()
        about = f"about {length.tokens} tokens (an estimate: {BYTES_PER_TOKEN} bytes a token)"
        count = f", or put the tokenizer of {model} on this machine to count exactly"
        raise ConfigError(
            f"{template.name}: a prompt of {about if estimate else f'{length.tokens} tokens'} and an answer of up "
            f"to {answer} do not fit max_model_len: {limit} (question hash {digest})",
            where="max_model_len",
            hint=f"Set max_model_len to {length.tokens + answer} or more{count if estimate else ''}. For a model with "
            f"less context leave the task out (tasks: …,-{template.name}), or lower max_gen_toks in its template",
        )
    if estimate:
        log.warning(
            f"{template.name}: no tokenizer of {model} on this machine: the longest prompt is estimated at "
            f"{length.tokens} tokens, which fits"
        )
    return LengthEntry(tokens=length.tokens, method=length.how, max_gen_toks=answer, max_model_len=limit)
