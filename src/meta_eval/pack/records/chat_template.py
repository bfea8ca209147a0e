"""Makes prompts of the messages of lm-eval's tasks: rendered with the model's chat template, as lm-eval's engines
render it, or as the body of a chat request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from meta_eval.base.errors import ConfigError, SourceError
from meta_eval.harness.families import choose_bos, remove_bos
from meta_eval.pack.backends.registry import find_backend
from meta_eval.pack.chat_rendering import ChatTemplate, fetch_chat_template
from meta_eval.pack.config import Config
from meta_eval.pack.records.recorded_docs import format_chat_body


@dataclass(frozen=True, slots=True)
class Chat:
    """How prompts are rendered.

    Attributes:
        render: Messages to text; ``add_generation_prompt`` as lm-eval passes it.
        bos: The text of the tokenizer's BOS; None without a BOS.
        multiturn: Whether each example is a separate turn.
        asked_as: ``chat`` if ``render`` makes the bodies of chat requests.
    """

    render: Callable[..., str]
    bos: str | None
    multiturn: bool
    asked_as: Literal["text", "chat"] = "text"

    def bare(self, prompt: str) -> str:
        """Remove the leading BOS, which every engine adds."""
        return remove_bos(prompt, self.bos)


def read_chat_template(config: Config) -> Chat | None:
    """Read how a configuration renders messages; None if it asks for plain texts. A chat endpoint gets messages.

    Raises:
        ConfigError: The tokenizer cannot be loaded, or it has no chat template.
    """
    if "chat" in find_backend(config.backend).kinds:
        return Chat(_format_body, None, config.fewshot_as_multiturn, "chat")
    if not config.apply_chat_template:
        return None
    place = config.tokenizer_of()
    try:
        template = fetch_chat_template(place)
    except SourceError as error:
        raise ConfigError(f"the chat template of {place} cannot be loaded: {error.what}", hint=error.hint) from None
    if template is None:
        raise ConfigError(f"the tokenizer of {place} has no chat template", hint="Set it to false")

    def render(messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = True) -> str:
        return _rendered(template, messages, add_generation_prompt)

    return Chat(render, choose_bos(template.bos), config.fewshot_as_multiturn)


def _format_body(messages: Sequence[Mapping[str, Any]], **_: Any) -> str:
    """The body of a chat request, with the messages that lm-eval's client would send."""
    return format_chat_body(messages)


def _rendered(template: ChatTemplate, messages: Sequence[Mapping[str, Any]], opened: bool) -> str:
    """Render messages as lm-eval does. If a template refuses system turns, they are left out."""
    try:
        return template.render(messages, add_generation_prompt=opened, continue_final_message=not opened)
    except ValueError:
        others = [message for message in messages if message["role"] != "system"]
        return template.render(others, add_generation_prompt=opened, continue_final_message=not opened)
