"""The client of llama.cpp, which it starts and stops."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from meta_eval.ask.completions import CompletionsConnection, ServerClient
from meta_eval.ask.served import Served, start_server
from meta_eval.ask.transport import Failed
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.plugins.engines.llamacpp.backend import PROGRAM, make_server_command, make_server_settings
from meta_eval.sockets import Answer, BackendError, Request

_SCRIPT = Path(__file__).with_name("llamacpp_server.py")


# Its tokens differ from vocabulary to vocabulary.
_SAMPLE = (
    "Is it the same model? On 24 November, seventeen engineers compared logarithms of probabilities: 3.14159 < 22/7."
)


class LlamaCppConnection(CompletionsConnection):
    """A server of llama.cpp, with its own pages."""

    async def meet(self) -> None:
        """Also check that the token ids of the key ``tokenizer`` mean the same in the GGUF file."""
        await super().meet()
        tokenizer = find_tokenizer(self._settings.tokenizer) if self._settings.tokenizer else None
        if tokenizer is None:
            return
        ids = tokenizer.encode(_SAMPLE, add_special_tokens=False).ids
        if (await self._ask_page("/detokenize", {"tokens": ids}, "content")).strip() != _SAMPLE:
            raise BackendError(
                f"is not the tokenizer in {self._model}", where=f"tokenizer: {self._settings.tokenizer}",
                hint="Name the tokenizer of this model",
            )  # fmt: skip

    async def tokenize(self, text: str) -> list[int]:
        """The token ids of a text, with the BOS if the GGUF file says so.

        Raises:
            CutError, GarbledError, Failed: It does not answer.
        """
        body = {"content": text, "add_special": True, "parse_special": True}
        ids: list[int] = await self._ask_page("/tokenize", body, "tokens")
        return ids

    async def _ask_page(self, path: str, body: Mapping[str, Any], field: str) -> Any:
        reply = await self._transport.request("POST", path, body, root=True)
        if reply.status != 200 or field not in (answer := reply.read_json()):
            raise Failed(f"{reply.status}: {reply.read_words()}")
        return answer[field]


class LlamaCppClient(ServerClient):
    """llama.cpp's ``/v1/completions``. Prompts are sent as text, because a GGUF file has its own tokenizer; with the
    key ``tokenizer`` as token ids, as to other servers."""

    @cached_property
    def engine(self) -> str:
        if find_spec("xllamacpp") is not None:
            return f"llama.cpp (xllamacpp {version('xllamacpp')})"
        printed = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False)
        number = re.search(r"version: *(\S+)", printed.stdout + printed.stderr)
        return f"llama.cpp ({PROGRAM}{' ' + number[1] if number else ''})"

    def connect(self, url: str, model: str, key: str | None) -> LlamaCppConnection:
        return LlamaCppConnection(url, self.settings, model, key)

    def start_server(self) -> Served:
        """Raises: BackendError: There is no such file or no llama.cpp, or it cannot be loaded."""
        self.backend.check_installed(self.settings)
        self.backend.check_model(self.model)
        if not self.settings.add_bos_token and self.settings.tokenizer is None:
            raise BackendError(
                "the record was made without a BOS, and llama.cpp adds one to a text if the GGUF file says so",
                where="backend llamacpp",
                hint="Set tokenizer to a hub id or a folder with the model's tokenizer; then token ids are sent",
            )
        return start_server(self._command, "llama.cpp", self.model, self.logs)

    def _command(self, port: int) -> Sequence[str]:
        if find_spec("xllamacpp") is None:
            return make_server_command(self.settings, self.model, port)
        fields = json.dumps(make_server_settings(self.settings))
        return [sys.executable, "-P", str(_SCRIPT), self.model, fields, str(port)]

    def cannot(self, kind: str, *, has_tokenizer: bool) -> str | None:
        # Choices without the key `tokenizer` are tokenised by llama.cpp.
        return super().cannot(kind, has_tokenizer=has_tokenizer or kind == "choices")

    async def ask(self, server: CompletionsConnection, request: Request) -> Answer:
        if isinstance(server, LlamaCppConnection) and request.prompt_ids is None and request.kind == "choices":
            texts = [request.prompt.rstrip(), *(request.prompt + text for text in request.continuations)]
            prompt, *choices = await asyncio.gather(*map(server.tokenize, texts))
            request = replace(
                request, prompt_ids=prompt, continuation_ids=[choice[len(prompt) :] for choice in choices]
            )
        return await super().ask(server, request)
