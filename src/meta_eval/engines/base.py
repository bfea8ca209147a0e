"""What meta-eval must know of an engine, and the ``lm_eval`` command that all engines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from meta_eval.engines.settings import RunSettings, Settings


def model_args_in(command: Sequence[str]) -> list[str]:
    """What stands behind ``--model_args``, item by item; nothing where a command has none."""
    at = command.index("--model_args") + 1 if "--model_args" in command else len(command)
    return ",".join(command[at : at + 1]).split(",")


class Engine(ABC):
    """An engine of lm-eval.

    Attributes:
        name: As the configuration calls it, ``backend``; lm_eval's ``--model`` too, unless `command` says otherwise.
        imports: The module that must be importable where the command runs.
        install: What pip installs to bring it.
        reserved: Arguments that ``model_args`` must not set, since each has a key of its own or would change what the
            numbers are numbers of; with what to do instead.
        tokenizer: The argument that names another tokenizer than the model's; None where it is not known.
        one_of_tokens: Whether it can be told to generate one of some tokens: ``allowed_token_ids``, ``logit_bias``.
    """

    name: str
    imports: str
    install: str
    reserved: Mapping[str, str]
    tokenizer: str | None = "tokenizer"
    one_of_tokens: bool = False

    @abstractmethod
    def arguments(self, settings: Settings) -> dict[str, object]:
        """What stands in ``--model_args``, before what the user adds."""

    @abstractmethod
    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:
        """Whether a command says that exactly one BOS is put before each prompt, or none; no prompt of a pack brings
        its own."""

    def warnings(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (most have nothing to say)
        """What a user must know of these settings, one sentence each without a full stop."""
        return ()

    def serve(self, settings: Settings) -> tuple[str, ...] | None:  # noqa: ARG002 (most need none)
        """What starts the server that the command asks, as an argument vector; None where there is none."""
        return None

    def gpus(self, settings: Settings) -> int:
        """How many GPUs a run takes."""
        return settings.tensor_parallel_size * settings.data_parallel_size

    def command(self, run: RunSettings) -> tuple[str, ...]:
        """The command that runs a pack, as an argument vector; ``shlex.join`` makes the line to paste.

        The user's own ``model_args`` stand last, sorted, so that equal configurations print equal commands.
        """
        own = {self.tokenizer: run.tokenizer} if self.tokenizer and run.tokenizer else {}
        arguments = {**self.arguments(run), **own, **{name: run.model_args[name] for name in sorted(run.model_args)}}
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
