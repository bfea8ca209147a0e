"""The chat template of the model's tokenizer, rendered as lm-eval's engines render it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from meta_eval.catalog.families import remove_bos
from meta_eval.config import Config
from meta_eval.messages.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Chat:
    """How prompts are rendered.

    Attributes:
        render: Messages to text; ``add_generation_prompt`` as lm-eval passes it.
        bos: The text of the tokenizer's BOS; None without a BOS.
        multiturn: Whether each example is a separate turn.
    """

    render: Callable[..., str]
    bos: str | None
    multiturn: bool

    def bare(self, prompt: str) -> str:
        """Remove the leading BOS, which every engine adds."""
        return remove_bos(prompt, self.bos)


def read_chat_template(config: Config) -> Chat | None:
    """Read the chat template of a configuration; None if it requests none.

    Raises:
        ConfigError: The tokenizer cannot be loaded, or it has no chat template.
    """
    if not config.apply_chat_template:
        return None
    place = config.tokenizer_of()
    tokenizer = _tokenizer(place)
    if not getattr(tokenizer, "chat_template", None):
        raise ConfigError(f"the tokenizer of {place} has no chat template", hint="Set it to false")

    def render(messages: Sequence[Any], add_generation_prompt: bool = True) -> str:
        return _rendered(tokenizer, messages, add_generation_prompt)

    bos = tokenizer.bos_token
    return Chat(render, bos if isinstance(bos, str) and bos else None, config.fewshot_as_multiturn)


def _tokenizer(place: str) -> Any:
    from meta_eval.verification.evaluator import silence_libraries

    try:
        with silence_libraries():
            return importlib.import_module("transformers").AutoTokenizer.from_pretrained(place)
    except ImportError:
        raise ConfigError(
            "a chat template is rendered by transformers, which is not installed",
            hint="pip install transformers jinja2",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = str(error).partition("\n")[0]
        raise ConfigError(f"the tokenizer of {place} cannot be loaded: {message:.200}") from None


def _rendered(tokenizer: Any, messages: Sequence[Any], opened: bool) -> str:
    """Render messages as lm-eval does. If a template refuses system turns, they are left out."""
    from jinja2.exceptions import TemplateError

    settings = {"tokenize": False, "add_generation_prompt": opened, "continue_final_message": not opened}
    try:
        return str(tokenizer.apply_chat_template(messages, **settings))
    except TemplateError:
        others = [message for message in messages if message["role"] != "system"]
        return str(tokenizer.apply_chat_template(others, **settings))
