"""The client of llama.cpp, which it starts and stops."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

from meta_eval.backends.base import BackendError
from meta_eval.backends.llamacpp import make_server_settings
from meta_eval.running.server_client import ServerClient
from meta_eval.running.vllm_server import Served, start_server

_SCRIPT = Path(__file__).with_name("llamacpp_server.py")


class LlamaCppClient(ServerClient):
    """llama.cpp's ``/v1/completions``. Prompts are sent as text, because a GGUF file has its own tokenizer."""

    @property
    def engine(self) -> str:
        return f"llama.cpp (xllamacpp {version('xllamacpp')})"

    def start_server(self) -> Served:
        """Raises: BackendError: There is no such file, or it cannot be loaded."""
        self.backend.check_model(self.model)
        if not self.settings.add_bos_token:
            raise BackendError(
                "the record was made without a BOS, and llama.cpp adds one if the GGUF file says so",
                where="backend llamacpp",
                hint="Start llama-server yourself, and set `backend: server`, `base_url` and `tokenizer`",
            )
        fields = json.dumps(make_server_settings(self.settings))
        command = [sys.executable, "-P", str(_SCRIPT), self.model, fields]
        return start_server(lambda port: [*command, str(port)], "llama.cpp", self.model, self.logs)
