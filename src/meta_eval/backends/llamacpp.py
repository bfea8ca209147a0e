"""llama.cpp: serves a GGUF file during a run, on a CPU or any device that its build supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meta_eval.backends.base import Backend, BackendError, load_class
from meta_eval.backends.settings import Settings
from meta_eval.boundary.inputs import suggest_path
from meta_eval.boundary.pack_names import join_names

# Parallel requests, as in llama.cpp's own server. ``model_args: {n_parallel: N}`` overrides it.
_SLOTS = 4


class LlamaCpp(Backend):
    """llama.cpp's server in a process that the run starts (`xllamacpp`). ``model_name`` is a GGUF file.

    ``model_args`` are fields of ``xllamacpp.CommonParams``, such as ``cache_type_k: q8_0``.
    """

    name = "llamacpp"
    reads_text = True
    tokenizer = None
    imports = "xllamacpp"
    install = "'meta-eval[llamacpp]'"
    no_command = "start llama-server yourself and set `backend: server` and `base_url`"
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        **dict.fromkeys(("model", "model_alias"), "use model_name"),
        "n_ctx": "use the key max_model_len",
        **dict.fromkeys(("port", "hostnames"), "the run chooses a free port of this machine"),
        "ctx_shift": "no prompt is ever cut",
    }

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.running.llamacpp_client:LlamaCppClient")

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
        **settings.model_args,
    }
