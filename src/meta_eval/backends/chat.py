"""An endpoint of OpenAI's ``/v1/chat/completions``: hosted, or a server of one's own."""

from __future__ import annotations

from typing import Any

from meta_eval.backends.base import Backend, load_class
from meta_eval.backends.settings import Settings
from meta_eval.boundary.hashing import hash_text

_EACH_REQUEST = "each request has its own"


class ChatEndpoint(Backend):
    """A chat endpoint. ``model_args`` are further fields of every body, such as ``reasoning_effort``. JSON text of an
    object or a list is sent as such.
    """

    name = "chat"
    kinds = frozenset(("generate", "chat"))
    reads_text = True
    renders_messages = True
    no_command = "`meta-eval run` asks a chat endpoint; lm_eval would put a template around text prompts"
    reserved = {  # noqa: RUF012 (the base class says that it is one for all)
        "model": "use model_name",
        "messages": _EACH_REQUEST,
        **dict.fromkeys(("max_gen_toks", "stop", "until"), "each task sets its own"),
        "n": "each repeat is a request with its own seed",
        "stream": "use the key stream",
        "stream_options": "use the key stream",
        "seed": "use the key seed",
        "tokenizer": "use the key tokenizer",
    }  # fmt: skip

    def load_client(self) -> type[Any]:
        return load_class("meta_eval.running.chat_client:ChatClient")

    def gpus(self, settings: Settings) -> int:  # noqa: ARG002 (whatever they say)
        return 0

    def rounding(self, settings: Settings) -> dict[str, str]:
        """An endpoint is known by its address alone, of which a hash is kept."""
        return {"server": hash_text(" ".join(settings.base_url))[:12]}
