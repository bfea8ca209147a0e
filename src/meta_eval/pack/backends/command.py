"""Builds the ``lm_eval`` command for backends that lm-eval supports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from meta_eval.harness.settings import RunSettings, Settings
from meta_eval.pack.backends.base import Backend


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
