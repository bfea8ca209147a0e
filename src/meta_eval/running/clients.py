"""The backends that run can ask: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from meta_eval.running.client import Client

# By the name in the configuration, the module and the class; imported when it is asked for.
_CLIENTS: Mapping[str, tuple[str, str]] = {
    "vllm": ("vllm", "VllmClient"),
    "server": ("server", "ServerClient"),
}


def client_of(backend: str, *, copies: int = 1) -> type[Client]:
    """The class of a backend; several copies of a model that vLLM is to run are served.

    Raises:
        KeyError: There is none of that name.
    """
    module, name = _CLIENTS["server" if backend == "vllm" and copies > 1 else backend]
    found: type[Client] = getattr(import_module(f"meta_eval.running.{module}"), name)
    return found
