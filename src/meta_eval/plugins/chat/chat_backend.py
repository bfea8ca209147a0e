"""An endpoint of OpenAI's ``/v1/chat/completions``: hosted, or a server of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval.base.hashing import hash_text, normalise_url
from meta_eval.harness.chat_messages import make_conversation
from meta_eval.pack.backends.base import load_class
from meta_eval.pack.backends.server import DEFAULT_URL, LmEvalBackend
from meta_eval.sockets import RunSettings, Settings

_EACH_REQUEST = "each request has its own"


# The field that makes an endpoint continue the last message. Each request has it or has it not.
CONTINUED = "continue_final_message"


class ChatEndpoint(LmEvalBackend):
    """A chat endpoint. The command uses lm-eval's ``local-chat-completions``, which reads the key from OPENAI_API_KEY.

    ``model_args`` are further fields of every body, such as ``reasoning_effort``. JSON text of an object or a list is
    sent as such.
    """

    name = "chat"
    install = "'lm-eval[api]'"
    kinds = frozenset(("generate", "chat"))
    reads_text = True
    renders_messages = True
    args_in_command = False  # they go into --gen_kwargs, which are JSON
    args_in_body = True
    commanded_as = frozenset(("chat",))
    no_command = "lm_eval does not continue begun answers as `meta-eval run` does"
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
        return load_class("meta_eval.plugins.chat.chat_client:ChatClient")

    def cannot_ask(self, prompt: str, settings: Settings) -> str | None:
        try:
            make_conversation(prompt, can_continue=bool(parse_fields(settings.model_args).get(CONTINUED)))
        except ValueError as error:
            return str(error)
        return None

    def arguments(self, settings: Settings) -> dict[str, object]:
        """The arguments of ``--model_args``."""
        url = normalise_url((*settings.base_url, DEFAULT_URL)[0])
        return {
            "model": settings.model_name,
            "base_url": f"{url}/chat/completions",
            "num_concurrent": settings.concurrency,
            "max_retries": settings.retries + 1,  # lm-eval counts the first attempt
            "timeout": max(1, round(settings.request_timeout)),
            "seed": settings.seed,
        }

    def command(self, run: RunSettings) -> tuple[str, ...]:
        """The command that runs a pack of chat messages. ``model_args`` become generation settings."""
        if run.model_args.get(CONTINUED):
            return ()
        own = run.model_copy(update={"model_args": {}, "tokenizer": None, "batch_size": 1})
        argv = super().command(own)
        fields = parse_fields(run.model_args)
        settings = ("--gen_kwargs", json.dumps(fields)) if fields else ()
        return (*argv[:2], "local-chat-completions", *argv[3:], "--apply_chat_template", *settings)

    def says_bos(self, command: Sequence[str], *, added: bool) -> bool:  # noqa: ARG002 (the endpoint's template decides)
        return True

    def gpus(self, settings: Settings) -> int:  # noqa: ARG002 (whatever they say)
        return 0

    def rounding(self, settings: Settings) -> dict[str, str]:
        """An endpoint is known by its address alone, of which a hash is kept."""
        return {"server": hash_text(" ".join(settings.base_url))[:12]}


def parse_fields(model_args: Mapping[str, Any]) -> dict[str, Any]:
    """Make fields of a body of ``model_args``: the JSON text of an object or a list becomes that."""
    return {name: _parse_field(value) for name, value in model_args.items()}


def _parse_field(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
