"""The base class of backends: name, kinds of requests, requirements, and client."""

from __future__ import annotations

import shlex
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from meta_eval.base.errors import UserError
from meta_eval.base.extensions import Extension, find_extensions, load_extension
from meta_eval.base.hashing import OWN_SERVER, hash_address
from meta_eval.base.inputs import is_path, suggest_path
from meta_eval.harness.settings import RunSettings, Settings, refuse_separators

BACKENDS_GROUP = "meta_eval.backends"


class UnknownBackendError(ValueError):
    """The name is not a backend that can answer a pack."""


class BackendError(UserError):
    """A backend cannot start, does not know the model, or is gone. Earlier answers are kept."""


@dataclass(frozen=True, slots=True)
class AddedBos:
    """How a model class of lm-eval puts a BOS before a prompt that brings one, with ``add_bos_token=True``."""

    until: tuple[int, ...] | None = None
    """The first version of lm-eval in which it looks at the prompt first; None if there is none."""

    for_gemma: bool = False
    """Whether it adds it for Gemma without being told."""


class Backend(ABC):
    """Answers the requests of a pack. This class never imports or starts an engine; its client does."""

    name: str
    """Value of the key ``backend``."""

    kinds: frozenset[str] = frozenset(("generate",))
    """Supported requests: ``generate`` (a text), ``chat`` (a message after messages), ``choices`` (log-likelihoods of
    continuations), ``force`` (log-probability of each token of a given text), or the name of a package's
    `meta_eval.ask.request_kinds.RequestKind`. Others are refused before any request is sent."""

    reads_text: bool = False
    """Whether it tokenises prompts with the tokenizer in the model's file. Then no other tokenizer is loaded, unless
    the key ``tokenizer`` names it."""

    needs_token_ids: bool = False
    """Whether it accepts only token ids, and so needs the tokenizer."""

    renders_messages: bool = False
    """Whether it makes the prompt of chat messages itself, so that its token ids are its own. Text prompts are parsed
    into messages."""

    restricts_tokens: bool = False
    """Whether the printed command can restrict generation to some tokens (``allowed_token_ids``)."""

    reloads_model: bool = False
    """Whether each call of the client's `answer` loads the model again. Then small calls are avoided."""

    reserved: Mapping[str, str] = {}
    """Arguments that ``model_args`` must not set, with what to do instead. Each has its own key, or would change the
    meaning of the scores."""

    tokenizer: str | None = "tokenizer"
    """The argument of ``model_args`` that names the tokenizer. None if there is none; then the key ``tokenizer`` is
    refused."""

    imports: str = ""
    """Module that must be importable where the model runs. Empty if none."""

    install: str = ""
    """What to install with pip for it."""

    extra: str = ""
    """The same for `meta-eval run`. Empty if it is `install`."""

    instead: str = ""
    """What answers in an engine's place, for the hint where one is not installed. Empty if it asks a model."""

    can_serve: bool = False
    """Whether it can start a server for the run (``serve: true``)."""

    args_of: str = ""
    """The engine whose arguments ``model_args`` are. Backends of one engine understand those of each other. Empty if no
    other backend does."""

    tuning: frozenset[str] = frozenset()
    """Arguments of ``model_args`` that set speed and memory alone. An override that names another engine leaves them
    out."""

    args_in_command: bool = True
    """Whether `command` holds ``model_args``. lm-eval splits them at commas, so that no value may hold one."""

    args_in_body: bool = False
    """Whether ``model_args`` are fields of the body of each request."""

    commanded_as: frozenset[str] = frozenset(("text",))
    """What the prompts of a pack may be if `command` is to ask them: ``text`` or ``chat`` messages."""

    no_command: str = "lm_eval has no such model"
    """Why ``lm_eval`` cannot use it. Empty if `command` returns a command."""

    added_bos: AddedBos | None = None
    """What lm-eval's class of this name adds to a prompt that begins with BOS. None if that is unknown."""

    @abstractmethod
    def load_client(self) -> type[Any]:
        """Import its client class, a subclass of `meta_eval.ask.client.Client`."""

    def cannot_ask(self, prompt: str, settings: Settings) -> str | None:  # noqa: ARG002 (most ask every text)
        """Why it cannot ask a text prompt: words that go on ``the prompt …``. None if it can."""
        return None

    def check_args(self, args: Mapping[str, object]) -> None:
        """Refuse ``model_args`` that its command would not hold as they are.

        Raises:
            ValueError: lm-eval would split a value.
        """
        for name, value in args.items() if self.args_in_command else ():
            refuse_separators(f"{name}={value}", equals=1)

    def resolve(self, settings: Settings) -> Backend:  # noqa: ARG002 (most answer themselves)
        """The backend that answers under these settings. Usually this backend itself."""
        return self

    def check_installed(self, settings: Settings) -> None:  # noqa: ARG002 (most need the same for all)
        """Refuse settings that need something that is not installed. Runs before any download.

        Raises:
            BackendError: Something is missing.
        """
        if self.imports:
            require_module(self.imports, self.extra or self.install, backend=self.name)

    def list_installs(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most need the same for all)
        """What pip must install where `command` runs, a requirement each, without quotes."""
        return tuple(shlex.split(self.install))

    def check_model(self, model: str) -> None:  # noqa: B027 (most load a model from anywhere)
        """Refuse a model that cannot be loaded on this machine. Runs before a pack is made.

        Raises:
            BackendError: It cannot.
        """

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most have nothing to say)
        """Warnings about these settings, each a sentence without a full stop."""
        return ()

    def find_warnings(self, settings: Settings) -> tuple[str, ...]:
        """`warnings`, and whether the engine, or the folder of a model or tokenizer that this machine would load, is
        missing."""
        return (*self._find_missing_engine(settings), *self._find_missing_model(settings), *self.warnings(settings))

    def _find_missing_engine(self, settings: Settings) -> tuple[str, ...]:
        try:
            self.check_installed(settings)
        except BackendError:
            return (f"the engine of backend {self.name} is not installed on this machine, where a run would need it",)
        return ()

    def _find_missing_model(self, settings: Settings) -> tuple[str, ...]:
        named = {"model_name": settings.model_name} if self.starts_engine(settings) else {}
        if settings.tokenizer is not None:
            named["tokenizer"] = settings.tokenizer
        return tuple(
            f"{key}: there is no folder {name} on this machine{suggest_path(path)}; the run needs it"
            for key, name in named.items()
            if is_path(name) and not (path := Path(name).expanduser()).exists()
        )

    def starts_server(self, settings: Settings) -> bool:
        """Whether a run starts its own server."""
        return self.can_serve and settings.serve

    def starts_engine(self, settings: Settings) -> bool:
        """Whether a run starts an engine, in this process or as a server: of the module in ``imports``."""
        return bool(self.imports) or self.starts_server(settings)

    def list_endpoints(self, settings: Settings) -> tuple[str, ...]:
        """What gives the answers: a hash of each address, `OWN_SERVER` for a server that the run starts; empty for an
        engine of the run's own, which its settings tell."""
        if self.starts_server(settings):
            return (OWN_SERVER,)
        return () if self.starts_engine(settings) else tuple(map(hash_address, settings.base_url))

    def gpus(self, settings: Settings) -> int:
        """Number of GPUs of a run."""
        return settings.tensor_parallel_size * settings.data_parallel_size

    def rounding(self, settings: Settings) -> dict[str, str]:
        """Settings that change how the same weights round, by name. The token check records them beside the engine."""
        return {"dtype": settings.dtype, "tensor_parallel_size": str(settings.tensor_parallel_size)}

    def vary_rounding(self, settings: RunSettings) -> RunSettings:
        """Settings of the same model that round in another way, for a second measurement."""
        return settings.model_copy(update={"concurrency": 8 if settings.concurrency == 1 else 1})

    def command(self, run: RunSettings) -> tuple[str, ...]:  # noqa: ARG002 (others have one)
        """The ``lm_eval`` command that runs a pack, as an argument vector. Empty if there is none."""
        return ()

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:  # noqa: ARG002 (others have one)
        """Whether a command adds exactly one BOS to each prompt, or none if ``added`` is False. Prompts of a pack never
        contain their own.
        """
        return not command

    def serve_command(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most need none)
        """The command that starts the server for `command`, as an argument vector. Empty if none is needed."""
        return ()


class BackendReasons(ABC):
    """Says why names that users know from another tool are no backends. A package registers it by an entry point of the
    group ``meta_eval.backend_reasons``."""

    @abstractmethod
    def find(self, name: str) -> str | None:
        """The reason, which follows "cannot run a pack: "; None if it does not know the name."""


def sort_extensions(others: Mapping[str, Extension]) -> list[str]:
    """The names of backends of packages: those with a module of their own, and then those that share a module."""
    module_of = {name: other.points[0].value.partition(":")[0] for name, other in others.items()}
    counts = Counter(module_of.values())
    return sorted(others, key=lambda name: (counts[module_of[name]] > 1, name))


def load_shipped() -> Iterator[Backend]:
    """The backends of the shipped plug-ins that can be loaded. A name that others claim, too, is left out."""
    extensions = find_extensions(BACKENDS_GROUP)
    for name in sort_extensions(extensions):
        if extensions[name].is_shipped:
            with suppress(UnknownBackendError):
                yield load_backend(extensions[name])


@cache
def load_backend(extension: Extension) -> Backend:
    """The backend of a package.

    Raises:
        UnknownBackendError: The package fails, or the backend has another name.
    """
    try:
        backend: Backend = load_extension(extension, Backend, name=(str,), kinds=(frozenset, set))
    except UserError as error:
        raise UnknownBackendError(f"{extension.name!r}: {error}") from error
    if backend.name != extension.name:
        value = extension.points[0].value
        raise UnknownBackendError(f"{extension.name!r} ({value}) defines the backend {backend.name!r}")
    return backend


def load_class(path: str) -> type[Any]:
    """Import the class ``module:Class``."""
    module, _, name = path.partition(":")
    loaded: type[Any] = getattr(import_module(module), name)
    return loaded


def require_module(module: str, install: str, *, backend: str) -> None:
    """Refuse to continue without a module.

    Raises:
        BackendError: It cannot be imported.
    """
    try:
        is_installed = module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        is_installed = False
    if not is_installed:
        raise describe_missing(module, install, where=f"backend {backend}")


def describe_missing(module: str, install: str, *, where: str) -> BackendError:
    """The error for an engine that is not installed, with the ways to do without it.

    Args:
        module: Its name.
        install: What to install with pip.
        where: What asks for it.
    """
    others = "".join(f"--set backend={other.name} ({other.instead}), or " for other in load_shipped() if other.instead)
    return BackendError(
        f"{module} is not installed", where=where,
        hint=f"pip install {install}. Without it: {others}a server: --set backend=server --set base_url=http://…/v1",
    )  # fmt: skip
