"""The models of lm-eval that cannot answer a pack."""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.sockets import BackendReasons

_CHAT = "it puts a chat template around prompts that bring their own; `backend: chat` asks a chat endpoint"

# Models of lm-eval that cannot answer a pack, with the reason.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "anthropic-chat", "anthropic-chat-completions", "litellm", "litellm-chat", "litellm-chat-completions",
            "local-chat-completions", "openai-chat-completions",
        ),
        _CHAT,
    ),
    "dummy": "it answers at random",
    "hf-audiolm-qwen": "it is asked with sounds",
}  # fmt: skip


class LmEvalReasons(BackendReasons):
    """Says why one of them is no backend."""

    def find(self, name: str) -> str | None:
        return REFUSED.get(name)
