"""Asks chat messages with stock lm_eval. prepare copies this file beside the YAML of a task whose prompts are the
bodies of chat requests.

``lm_eval --model local-chat-completions --apply_chat_template`` sends the recorded messages as they are. An engine that
renders prompts itself uses its own chat template. Without the flag, the prompt is the JSON text of
the body, which `meta-eval run` and `meta-eval verify` read.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

from lm_eval.api.task import ConfigurableTask

_log = logging.getLogger("lm_eval.chat_task")


class ChatTask(ConfigurableTask):  # type: ignore[misc]
    """A YAML task whose ``doc_to_text`` is the body of a chat request: a JSON object with ``messages`` and other fields
    of the doc, such as ``response_format``. The other fields become generation settings of the request.
    """

    _warned = False

    def __init__(self, config: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(config={key: value for key, value in (config or {}).items() if key != "class"}, **kwargs)

    def fewshot_context(
        self,
        doc: dict[str, Any],
        *_: Any,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        chat_template: Callable[..., Any] | None = None,
        **__: Any,
    ) -> Any:
        """The messages as the model takes them, or without a chat template the JSON text of the body.

        Raises:
            ValueError: The command has a system instruction. The messages hold that of the record.
        """
        if system_instruction:
            raise ValueError("The system messages of this task are recorded: leave --system_instruction out.")
        body: str = self.doc_to_text(doc)
        if not apply_chat_template or chat_template is None:
            if not self._warned:
                _log.warning("%s: asked as JSON text. Give lm_eval --apply_chat_template.", self.config.task)
            self._warned = True
            return body
        messages = json.loads(body)["messages"]
        return chat_template(messages, add_generation_prompt=messages[-1]["role"] != "assistant")

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """Build the request. Under a chat template it gets the fields of the body other than its messages."""
        request = super().construct_requests(doc, ctx, **kwargs)
        if kwargs.get("apply_chat_template"):
            fields = {name: value for name, value in json.loads(self.doc_to_text(doc)).items() if name != "messages"}
            context, settings = request.arguments
            request.arguments = (context, {**settings, **fields})
        return request
