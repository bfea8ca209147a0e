"""llama.cpp: serves a GGUF file during a run, on a CPU or any device that its build supports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from meta_eval.base.inputs import suggest_path
from meta_eval.base.pack_names import join_names
from meta_eval.pack.backends.base import load_class
from meta_eval.sockets import Backend, BackendError, Settings

# Parallel requests, as in llama.cpp's own server. ``model_args: {n_parallel: N}`` overrides it.
_SLOTS = 4

# The program to start where `xllamacpp` is not installed.
PROGRAM = "llama-server"

# Fields of ``CommonParams`` that are options of `llama-server` by another name.
_RENAMED = {
    "n_batch": "batch-size", "n_ctx": "ctx-size", "n_parallel": "parallel", "n_threads": "threads",
    "n_ubatch": "ubatch-size", "cache_ram_mib": "cache-ram",
}  # fmt: skip


class LlamaCpp(Backend):
    """llama.cpp's server in a process that the run starts. ``model_name`` is a GGUF file.

    ``model_args`` are fields of ``xllamacpp.CommonParams``, such as ``cache_type_k: q8_0``. Without `xllamacpp` they
    become options of a `llama-server` on the shell's path.
    """

    name = "llamacpp"
    kinds = frozenset(("generate", "choices", "force"))
    reads_text = True
    imports = "xllamacpp"
    install = "'xllamacpp>=2026.10'"
    args_of = "llama.cpp"
    tuning = frozenset((
        "cache_ram_mib", "cont_batching", "main_gpu", "n_batch", "n_gpu_layers", "n_parallel", "n_threads",
        "n_threads_batch", "n_ubatch", "split_mode", "tensor_split", "use_mlock", "use_mmap",
    ))  # fmt: skip
    args_in_command = False  # there is none
    no_command = "for texts alone start llama-server yourself and set `backend: server` and `base_url`"
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        **dict.fromkeys(("model", "model_alias"), "use model_name"),
        "tokenizer": "use the key tokenizer",
        "n_ctx": "use the key max_model_len",
        **dict.fromkeys(("port", "hostnames"), "the run chooses a free port of this machine"),
        "ctx_shift": "no prompt is ever cut",
    }

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.plugins.engines.llamacpp.llamacpp_client:LlamaCppClient")

    def check_installed(self, settings: Settings) -> None:  # noqa: ARG002 (whatever they say)
        if find_spec(self.imports) is None and which(PROGRAM) is None:
            raise BackendError(
                f"neither {self.imports} nor {PROGRAM} is installed", where="backend llamacpp",
                hint=f"pip install {self.install}, or put {PROGRAM} on the PATH",
            )  # fmt: skip

    def check_model(self, model: str) -> None:
        path = Path(model)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else f"there is no such file{suggest_path(path)}"
            files = [str(file) for file in sorted(path.parent.glob("*.gguf"))]
            example = f", such as {join_names(files, 3)}" if files else ""
            raise BackendError(
                what, where=f"model_name: {model}", hint=f"Set model_name to the path of a GGUF file{example}"
            )

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        try:
            self.check_model(settings.model_name)
        except BackendError as error:
            return (str(error),)
        return ()

    def _find_missing_model(self, settings: Settings) -> tuple[str, ...]:  # noqa: ARG002 (`warnings` says it)
        return ()

    def starts_server(self, settings: Settings) -> bool:  # noqa: ARG002 (whatever they say)
        return True

    def gpus(self, settings: Settings) -> int:  # noqa: ARG002 (llama.cpp takes those that it finds)
        return 0


def make_server_settings(settings: Settings) -> dict[str, Any]:
    """The fields of ``CommonParams``. Each slot holds ``max_model_len`` tokens."""
    slots = int(settings.model_args.get("n_parallel", min(_SLOTS, settings.concurrency)))
    return {
        "n_parallel": slots,
        "n_ctx": settings.max_model_len * slots,
        "cache_ram_mib": 0,  # an extra cache of whole prompts, up to 8 GiB
        # Its threads wait for each other at every layer. Where another process takes a core, all of them stall.
        "n_threads": max(1, len(os.sched_getaffinity(0)) - 1) if hasattr(os, "sched_getaffinity") else -1,
        **settings.model_args,
    }


def make_server_command(settings: Settings, model: str, port: int) -> Sequence[str]:
    """The command of `llama-server`. A field ``n_gpu_layers: 9`` becomes ``--n-gpu-layers 9``."""
    argv = [PROGRAM, "--model", model, "--alias", model, "--host", "127.0.0.1", "--port", str(port)]
    for name, value in make_server_settings(settings).items():
        flag = _RENAMED.get(name, name.replace("_", "-"))
        argv += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return argv
