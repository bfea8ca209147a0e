"""Servers with OpenAI's ``/v1/completions``: the backend, its command, and the socket for programs that serve."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from meta_eval.base.errors import UserError
from meta_eval.base.extensions import Extension, find_extensions, load_extension
from meta_eval.base.hashing import hash_text, is_loopback, normalise_url
from meta_eval.base.logs import log
from meta_eval.base.pack_names import join_names
from meta_eval.harness.settings import RunSettings, Settings
from meta_eval.pack.backends.base import Backend, BackendError, load_class


def find_model_args(command: Sequence[str]) -> list[str]:
    """The items of a command's ``--model_args``. Empty if it has none."""
    at = command.index("--model_args") + 1 if "--model_args" in command else len(command)
    return ",".join(command[at : at + 1]).split(",")


class LmEvalBackend(Backend):
    """A backend that stock ``lm_eval`` supports. Its name is lm-eval's ``--model``, unless `command` says otherwise."""

    no_command = ""

    @abstractmethod
    def arguments(self, settings: Settings) -> dict[str, object]:
        """The arguments in ``--model_args`` that come before the user's."""

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:
        return f"add_bos_token={added}" in find_model_args(command) and "--apply_chat_template" not in command

    def command(self, run: RunSettings) -> tuple[str, ...]:
        """The command that runs a pack, as an argument vector. ``shlex.join`` makes the line to paste.

        The user's ``model_args`` come last, sorted. Equal configurations print equal commands.
        """
        tokenizer_args = {self.tokenizer: run.tokenizer} if self.tokenizer and run.tokenizer else {}
        arguments = {
            **self.arguments(run),
            **tokenizer_args,
            **{name: run.model_args[name] for name in sorted(run.model_args)},
        }
        if "add_bos_token" in arguments:
            arguments["add_bos_token"] = run.add_bos_token
        argv = ["lm_eval", "--model", self.name]
        argv += ["--model_args", ",".join(f"{name}={value}" for name, value in arguments.items())]
        argv += ["--tasks", ",".join(run.tasks)]
        argv += ["--batch_size", str(run.batch_size)]
        argv += ["--output_path", run.output_path]
        argv += ["--include_path", run.include_path]
        argv += ["--seed", str(run.seed)]
        if run.limit is not None:
            argv += ["--limit", str(run.limit)]
        if run.verbosity is not None:
            argv += ["--verbosity", run.verbosity]
        if run.log_samples:
            argv.append("--log_samples")
        if run.show_config:
            argv.append("--show_config")
        if run.runs_code:
            argv.append("--confirm_run_unsafe_code")
        return tuple(argv)


PROGRAMS = "meta_eval.server_programs"

# Where engines serve unless they are told otherwise.
DEFAULT_URL = "http://127.0.0.1:8000/v1"

# The model_args for lm_eval's local-completions, and those for both ends. All others are flags of the server.
OF_CLIENT = frozenset(("ca_cert_path", "use_fast_tokenizer", "verify_certificate"))
_OF_BOTH = frozenset(("revision", "trust_remote_code"))


class ServerProgram(ABC):
    """The program that ``serve: true`` starts, and whose command `prepare` prints for backend ``server``.

    An engine registers it by an entry point of the group ``meta_eval.server_programs``. Its module imports no engine.
    """

    name: str
    """The command, in messages."""

    args_of: str
    """The engine whose arguments ``model_args`` are."""

    tuning: frozenset[str] = frozenset()
    reserved: Mapping[str, str] = {}
    """As in `Backend`; these are reserved besides those of backend ``server``."""

    spans_nodes: bool = False
    """Whether one copy of a model may run on several machines, with vLLM's options for that (``--nnodes``,
    ``--node-rank``, ``--headless``, ``--master-addr``, ``--master-port``)."""

    @abstractmethod
    def check_installed(self) -> None:
        """Raises: BackendError: It is not installed."""

    @abstractmethod
    def command(self, settings: Settings, model: str, port: int, *, host: str | None) -> tuple[str, ...]:
        """The command that serves a model for a run, as an argument vector.

        Raises:
            ValueError: It does not have an argument in model_args. The text is its name.
        """

    @abstractmethod
    def short_command(self, model: str, *, dtype: str, max_model_len: int) -> tuple[str, ...]:
        """A command to paste that serves a model with all else as the program has it."""

    @abstractmethod
    def start(self, settings: RunSettings, model: str, logs: Path) -> Any:
        """Start it for a run, and wait until it answers. Returns a `meta_eval.ask.served.Served`.

        Raises:
            BackendError: It cannot be started; the message has the tail of its log.
        """


def find_program() -> ServerProgram | None:
    """The program that serves; None if no engine brings one."""
    return _load_program(tuple(find_extensions(PROGRAMS).values()))


@cache
def _load_program(extensions: tuple[Extension, ...]) -> ServerProgram | None:
    programs: list[ServerProgram] = []
    for extension in extensions:
        try:
            programs.append(load_extension(extension, ServerProgram, name=(str,), args_of=(str,)))
        except UserError as error:
            log.warning(str(error))
    if len(programs) > 1:
        names = join_names([program.name for program in programs], len(programs))
        log.warning(f"several programs serve models here ({names}): `serve: true` starts {programs[0].name}")
    return programs[0] if programs else None


class Server(LmEvalBackend):
    """Running servers, or a server that the run starts with a program. The command uses lm-eval's
    ``local-completions``.

    It sends prompts as token ids with exactly one BOS. The defaults of ``local-completions`` would silently cut prompts
    to 2,047 tokens (``max_length``), send one request at a time, and ask the server for its tokenizer.
    """

    name = "server"
    imports = "tenacity"
    install = "'lm-eval[api]'"
    kinds = frozenset(("generate", "choices", "force"))  # a server may support fewer; the first request shows it
    restricts_tokens = True
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        **dict.fromkeys(("pretrained", "model", "served_model_name"), "use model_name"),
        "tokenizer": "use the key tokenizer",
        **dict.fromkeys(("host", "port", "base_url"), "use the key base_url"),
        **{name: f"use the key {name}" for name in (
            "tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization", "max_model_len", "dtype", "seed",
            "batch_size",
        )},
        "max_length": "use the key max_model_len",
        "num_concurrent": "use the key concurrency",
        "max_retries": "use the key retries",
        "timeout": "use the key request_timeout",
        "add_bos_token": "it is always True: the prompts of a pack hold no BOS, and exactly one must be there",
        "tokenized_requests": "it is always True: a prompt goes out as the token ids that were checked",
        "tokenizer_backend": "it is always huggingface: the server's own would be asked for each prompt",
        "truncate": "no prompt is ever cut",
        "max_gen_toks": "each task sets its own",
    }  # fmt: skip

    def __init__(self, program: ServerProgram | None = None) -> None:
        self.program = program
        if program is not None:
            self.can_serve, self.args_of, self.tuning = True, program.args_of, program.tuning
            self.reserved = {**self.reserved, **program.reserved}

    def starts_engine(self, settings: Settings) -> bool:
        """Only with ``serve: true``."""
        return self.starts_server(settings)

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.ask.completions:ServerClient")

    def check_installed(self, settings: Settings) -> None:
        if self.program is not None and self.starts_server(settings):
            self.program.check_installed()
        elif settings.serve:
            raise BackendError(
                "no engine is here that `serve: true` could start", where="serve",
                hint="Start a server yourself, and name its address with base_url",
            )  # fmt: skip

    def start_server(self, settings: RunSettings, model: str, logs: Path) -> Any:
        """Start the server of a run, as `ServerProgram.start`; None if it is one that runs already."""
        self.check_installed(settings)
        return self.program.start(settings, model, logs) if self.program and self.starts_server(settings) else None

    def arguments(self, settings: Settings) -> dict[str, object]:
        """The arguments of ``--model_args``.

        ``max_length`` is a token larger than the context. lm-eval subtracts 1, and cuts prompts that leave too little
        room for the answer.
        """
        return {
            "model": settings.model_name,
            "tokenizer": settings.tokenizer_of(),
            "base_url": make_completions_url((*settings.base_url, DEFAULT_URL)[0]),
            "max_length": settings.max_model_len + 1,
            "tokenized_requests": True,
            "tokenizer_backend": "huggingface",
            "add_bos_token": True,
            "num_concurrent": settings.concurrency,
            "max_retries": settings.retries + 1,  # lm-eval counts the first attempt
            "timeout": max(1, round(settings.request_timeout)),
            "seed": settings.seed,
        }

    def rounding(self, settings: Settings) -> dict[str, str]:
        """A server that runs already is known by its address alone, of which a hash is kept."""
        if self.starts_server(settings):
            return super().rounding(settings)
        return {"server": hash_text(" ".join(settings.base_url or (DEFAULT_URL,)))[:12]}

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:
        arguments = find_model_args(command)
        settings = {f"add_bos_token={added}", "tokenized_requests=True"}
        return settings <= set(arguments) and "--apply_chat_template" not in command

    def command(self, run: RunSettings) -> tuple[str, ...]:
        """The command that runs a pack.

        A request has ``batch_size`` prompts if that is a number, else a single prompt. Answers keep special tokens, as
        in lm-eval's vllm backend. A server removes them by default, but ``<|python_tag|>`` is part of the answers of
        tool tasks.
        """
        client_args = {name: value for name, value in run.model_args.items() if name in OF_CLIENT | _OF_BOTH}
        size = run.batch_size if isinstance(run.batch_size, int) else 1
        argv = super().command(run.model_copy(update={"model_args": client_args, "batch_size": size}))
        kept_settings = "skip_special_tokens=False,spaces_between_special_tokens=False"
        return (argv[0], "--model", "local-completions", *argv[3:], "--gen_kwargs", kept_settings)

    def serve_command(self, settings: Settings) -> tuple[str, ...]:
        if self.program is None:
            return ()
        url = urlsplit((*settings.base_url, DEFAULT_URL)[0])
        host = url.hostname if is_loopback(url.geturl()) else None
        return self.program.command(settings, settings.model_name, url.port or 8000, host=host)

    def gpus(self, settings: Settings) -> int:
        """Number of GPUs of the server that the run starts. 0 if the server is already running."""
        return super().gpus(settings) if settings.serve else 0

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        sentences = []
        if len(settings.base_url) > 1:
            sentences.append(
                f"lm_eval asks one server, and the command names the first of {len(settings.base_url)}; "
                "`meta-eval run` asks all"
            )
        flags = sorted(name for name in settings.model_args if name not in OF_CLIENT)
        if flags and not settings.serve:
            owner = f"are flags of `{self.program.name}`, which `serve: true` alone starts" if self.program else ""
            sentences.append(f"model_args: {', '.join(flags)} {owner or 'do not reach a server that runs already'}")
        return tuple(sentences)


def make_completions_url(url: str) -> str:
    """The address of the completions endpoint."""
    return f"{normalise_url(url)}/completions"
