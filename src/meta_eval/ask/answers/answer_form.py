"""The socket for forms of files: how requests are written for other programs, and how their answers are read.

A package adds a form by an entry point of the group ``meta_eval.answer_forms``, which names an `AnswerForm`. ``export
--to NAME`` writes it, and every command that reads answers knows its lines by their content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from meta_eval.ask.model_tokens import Encoder
from meta_eval.ask.request import Request
from meta_eval.harness.answer import Answer, AnswersError
from meta_eval.harness.evaluator import Evaluator
from meta_eval.pack.manifest import Manifest

# What a line is of: requests, answers, or the right answers that a record format reads beside them.
Holding = Literal["requests", "answers", "golds"]


@dataclass(frozen=True, slots=True)
class Export:
    """What `export` writes.

    Attributes:
        pack: The pack.
        manifest: Its manifest.
        evaluator: Its evaluator.
        tasks: The tasks.
        encoder: Makes token ids; None if the form takes none, or the tokenizer is not on this machine.
        force: Whether the requests are those of `fidelity`, of kind ``force`` and ``choices``.
        edited: Files of the pack that were edited after prepare.
    """

    pack: Path
    manifest: Manifest
    evaluator: Evaluator
    tasks: Sequence[str]
    encoder: Encoder | None
    force: bool
    edited: Sequence[str]


class AnswerForm(ABC):
    """A form of files of requests and answers.

    Attributes:
        name: As ``--to`` has it.
        takes_token_ids: Whether its requests hold token ids.
    """

    name: ClassVar[str]
    takes_token_ids: ClassVar[bool] = False

    @abstractmethod
    def find_kind(self, line: object) -> Holding | None:
        """What a line holds, that was parsed as JSON; None if it is not of this form."""

    def check_export(self, export: Export) -> None:  # noqa: B027 (some hold every request)
        """Check that the form can hold the requests, before any is written.

        Raises:
            ConfigError: It cannot.
        """

    @abstractmethod
    def format_requests(self, requests: Iterator[Request], export: Export) -> Iterator[str]:
        """Yield the lines of a file of requests, each with its line break.

        Raises:
            PackError: It cannot hold a request.
        """

    @abstractmethod
    def read_answer(self, line: object, names: Mapping[str, str | None], where: str) -> Answer | None:
        """Read a line that holds an answer; None if it answers no request of the pack.

        Args:
            line: The line, parsed as JSON.
            names: What `bind` found.
            where: File and line.

        Raises:
            AnswersError, ValueError: It is no answer. The text of a ValueError continues "it …".
        """

    def bind(self, files: Sequence[Path], requests: Iterable[Request]) -> Mapping[str, str | None]:  # noqa: ARG002
        """Find the requests of a pack that files ask which `export` did not write.

        Args:
            files: Files of requests.
            requests: The requests of the pack.

        Returns:
            By the name of a request in these files: the name that `export` gives the same request of the pack; None if
            the pack has none.

        Raises:
            AnswersError: The form names requests in one way alone; or none of the requests is of the pack.
        """
        raise make_requests_error(str(files[0]))


def make_requests_error(file: str) -> AnswersError:
    """The error of a file of requests in the place of one of answers."""
    return AnswersError("holds requests, not answers", where=file, hint="Name the answers file")
