"""The base class of backends: name, kinds of requests, needs, and the client that asks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from meta_eval.backends.settings import RunSettings, Settings
from meta_eval.messages.errors import UserError


class BackendError(UserError):
    """A backend cannot be started, does not know the model, or is gone; what was answered before is kept."""


class Backend(ABC):
    """What answers the requests of a pack. Nothing here imports or starts an engine; its client does.

    Attributes:
        name: As the configuration calls it, ``backend``.
        kinds: The requests that it can answer: ``generate`` (a text), ``choices`` (log-likelihoods of continuations),
            ``force`` (the log-probability of each token of a given text). Others are refused before anything is asked.
        reads_text: Whether it makes the tokens of a prompt itself, by the tokenizer in the model's file: none is looked
            for here.
        needs_token_ids: Whether it can only be asked with token ids, so that nothing works without the tokenizer.
        restricts_tokens: Whether the printed command can have it generate one of some tokens (``allowed_token_ids``).
        reloads_model: Whether each call of its client's `answer` loads the model again, so that little things are not
            worth asking.
        reserved: Arguments that ``model_args`` must not set, since each has a key of its own or would change what the
            numbers are numbers of; with what to do instead.
        tokenizer: The argument of ``model_args`` that names another tokenizer than the model's; None where none is
            known, and the key ``tokenizer`` is refused.
        imports: The module that must be importable where the model runs; empty for none.
        install: What pip installs to bring it.
        extra: The same for `meta-eval run`; empty where it is `install`.
        can_serve: Whether it can start a server for the run (``serve: true``).
        no_command: Why ``lm_eval`` cannot ask it; empty where `command` is one.
    """

    name: str
    kinds: frozenset[str] = frozenset(("generate",))
    reads_text: bool = False
    needs_token_ids: bool = False
    restricts_tokens: bool = False
    reloads_model: bool = False
    reserved: Mapping[str, str] = {}
    tokenizer: str | None = "tokenizer"
    imports: str = ""
    install: str = ""
    extra: str = ""
    can_serve: bool = False
    no_command: str = "lm_eval has no such model"

    @abstractmethod
    def load_client(self) -> type[Any]:
        """Import the class that asks it, a `meta_eval.running.client.Client`."""

    def resolve(self, settings: Settings) -> Backend:  # noqa: ARG002 (most answer themselves)
        """The backend that answers under these settings: itself, or another in its place."""
        return self

    def check_installed(self, settings: Settings) -> None:  # noqa: ARG002 (most need the same for all)
        """Refuse settings that need what is not installed here, before anything is downloaded.

        Raises:
            BackendError: So it is.
        """
        if self.imports:
            require_module(self.imports, self.extra or self.install, backend=self.name)

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most have nothing to say)
        """What a user must know of these settings, one sentence each without a full stop."""
        return ()

    def starts_server(self, settings: Settings) -> bool:
        """Whether a run starts a server of its own."""
        return self.can_serve and settings.serve

    def gpus(self, settings: Settings) -> int:
        """How many GPUs a run takes."""
        return settings.tensor_parallel_size * settings.data_parallel_size

    def command(self, run: RunSettings) -> tuple[str, ...]:  # noqa: ARG002 (others have one)
        """The ``lm_eval`` command that runs a pack, as an argument vector; empty where there is none."""
        return ()

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:  # noqa: ARG002 (others have one)
        """Whether a command says that exactly one BOS is put before each prompt, or none; no prompt of a pack brings
        its own."""
        return not command

    def serve_command(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most need none)
        """What starts the server that `command` asks, as an argument vector; empty where there is none."""
        return ()


def load_class(path: str) -> type[Any]:
    """The class of ``module:Class``."""
    module, _, name = path.partition(":")
    loaded: type[Any] = getattr(import_module(module), name)
    return loaded


def require_module(module: str, install: str, *, backend: str) -> None:
    """Refuse to go on without a module.

    Raises:
        BackendError: It cannot be imported here.
    """
    try:
        is_installed = module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        is_installed = False
    if not is_installed:
        raise BackendError(
            f"{module} is not installed", where=f"backend {backend}",
            hint=f"pip install {install}, or use a server: set `backend: server` and `base_url`",
        )  # fmt: skip
