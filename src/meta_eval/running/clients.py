"""The backends that run can ask: one file each, and one line here."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from shutil import which

from meta_eval.engines import ENGINES
from meta_eval.engines.settings import RunSettings
from meta_eval.running.client import BackendError, Client

# By the name in the configuration, the module and the class; imported when it is asked for.
_CLIENTS: Mapping[str, tuple[str, str]] = {
    "vllm": ("vllm", "VllmClient"),
    "server": ("server", "ServerClient"),
    "ray": ("ray", "RayClient"),
}

# Our extras of what a backend needs.
_EXTRAS = {"vllm": "'meta-eval[vllm]'", "ray": "'meta-eval[ray]'"}


def client_of(backend: str, *, copies: int = 1) -> type[Client]:
    """The class of a backend; several copies of a model that vLLM is to run are served, and lm-eval's own models share
    one."""
    name = "server" if backend == "vllm" and copies > 1 else backend
    module, name = _CLIENTS.get(name, ("lm_eval_model", "LmEvalClient"))
    found: type[Client] = getattr(import_module(f"meta_eval.running.{module}"), name)
    return found


def check_installed(settings: RunSettings) -> None:
    """Refuse a backend that is not installed here, before anything is downloaded for it.

    Raises:
        BackendError: So it is.
    """
    engine = ENGINES["vllm" if settings.backend == "server" else settings.backend]
    serves = settings.serve or (settings.backend == "vllm" and settings.data_parallel_size > 1)
    if (settings.backend == "server" and not serves) or (serves and which("vllm")) or _is_importable(engine.imports):
        return
    raise BackendError(
        f"{engine.imports} is not installed here", where=f"backend {settings.backend}",
        hint=f"pip install {_EXTRAS.get(engine.name, engine.install)}, or ask a server: backend server and base_url",
    )  # fmt: skip


def _is_importable(module: str) -> bool:
    try:
        return module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        return False
