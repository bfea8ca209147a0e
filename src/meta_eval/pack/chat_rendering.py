"""The chat template of a model, rendered with jinja2 as transformers and vLLM render it, without either."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from meta_eval.base.inputs import parse_json, read_regular
from meta_eval.pack.prompt_lengths import find_model_file

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_CONFIG = "tokenizer_config.json"
_FILE = "chat_template.jinja"

# Marks where a message ends that the answer continues. The space says whether the template trims messages.
_END = "END OF THE LAST MESSAGE "


# Fields of a body that a template sees. vLLM passes the names in ``chat_template_kwargs`` on, too.
_OF_TEMPLATE = ("tools", "add_generation_prompt", "continue_final_message")


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template."""

    sources: Mapping[str, str]
    """Jinja sources by name: ``default``, and of some models ``tool_use``."""

    tokens: Mapping[str, str]
    """The special tokens that a template may name, such as ``bos_token``."""

    @property
    def bos(self) -> str | None:
        """The text of the BOS; None without one."""
        return self.tokens.get("bos_token") or None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """Render messages.

        Args:
            messages: With ``role`` and ``content``.
            tools: As of a chat endpoint's body.
            add_generation_prompt: Whether to open the turn of the answer.
            continue_final_message: Whether the last message is the beginning of the answer.
            variables: Further variables of the template, such as ``enable_thinking``.

        Raises:
            ValueError: The template refuses the messages, or is faulty.
        """
        from jinja2 import TemplateError

        if continue_final_message:
            *others, last = deepcopy(list(messages))
            messages = [*others, {**last, "content": f"{last['content']}{_END}"}]
        template = self._tool_template if tools and "tool_use" in self.sources else self._template
        values = {"documents": None, **self.tokens, **variables}
        try:
            text = template.render(
                messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **values
            )
        except (TemplateError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"the chat template refuses these messages: {error}") from None
        if not continue_final_message:
            return text
        text, end, rest = text.rpartition(_END.strip())
        if not end:
            raise ValueError("the chat template leaves the last message out")
        return text if rest.startswith(" ") else text.rstrip()

    @cached_property
    def _template(self) -> Template:
        return _compile(self.sources["default"])

    @cached_property
    def _tool_template(self) -> Template:
        return _compile(self.sources["tool_use"])


def render_conversation(conversation: Mapping[str, Any], template: ChatTemplate) -> str:
    """Render the body of a chat request as the endpoint does.

    Args:
        conversation: ``messages``, ``tools`` and other fields of the body.
        template: The model's.

    Raises:
        ValueError: The template refuses the messages.
    """
    fields = {name: conversation[name] for name in _OF_TEMPLATE if name in conversation}
    variables = conversation.get("chat_template_kwargs")
    return template.render(conversation["messages"], **fields, **(variables if isinstance(variables, dict) else {}))


def find_chat_template(model: str) -> ChatTemplate | None:
    """Find the chat template of a model in its folder or the hub's cache; None if it is not on this machine.

    Args:
        model: The name of a repository or the path of a folder.
    """
    config: Any = {}
    if path := find_model_file(model, _CONFIG):
        try:
            config = parse_json(read_regular(Path(path)))
        except (OSError, ValueError):
            return None
    config = config if isinstance(config, dict) else {}
    written = config.get("chat_template")
    if path := find_model_file(model, _FILE):
        try:
            written = read_regular(Path(path)).decode()
        except (OSError, ValueError):
            return None
    if isinstance(written, str):
        written = [{"name": "default", "template": written}]
    sources = {
        str(item.get("name")): item["template"]
        for item in (written if isinstance(written, list) else ())
        if isinstance(item, dict) and isinstance(item.get("template"), str)
    }
    return ChatTemplate(sources, _read_tokens(config)) if "default" in sources else None


def fetch_chat_template(model: str) -> ChatTemplate | None:
    """Find the chat template of a model, and download it if it is not on this machine; None if the model has none.

    Raises:
        SourceError: The hub does not give it.
    """
    from meta_eval.pack.hub import download_model_files

    template = find_chat_template(model)
    if template is None and not Path(model).is_dir():
        download_model_files(model, (_CONFIG, _FILE))
        template = find_chat_template(model)
    return template


def _read_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    tokens = {}
    for name, value in config.items():
        text = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(text, str):
            tokens[name] = text
    return tokens


def _compile(source: str) -> Template:
    from jinja2 import TemplateError

    try:
        return _make_environment().from_string(source)
    except (TemplateError, RecursionError) as error:
        raise ValueError(f"the chat template is faulty: {error}") from None


def _make_environment() -> Environment:
    """The environment that templates of the hub are written for."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks the assistant's texts, for training."""

        tags = {"generation"}  # noqa: RUF012 (as of jinja2)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    def refuse(message: str) -> NoReturn:
        raise TemplateError(message)

    def format_json(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def format_now(form: str) -> str:
        return datetime.now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = format_json
    environment.globals.update(raise_exception=refuse, strftime_now=format_now)
    return environment
