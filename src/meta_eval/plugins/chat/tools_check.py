"""The check of ``meta-eval doctor`` whether the model's chat template renders tools."""

from __future__ import annotations

import json
from collections.abc import Iterator

from meta_eval.harness.chat_messages import offers_tools
from meta_eval.pack.chat_rendering import find_chat_template
from meta_eval.plugins.chat.chat_prompts import loses_tools
from meta_eval.sockets import Check, CheckedPack, Finding, failed, not_checked, passed


class ToolsCheck(Check):
    """Checks the first doc that offers tools, of a pack whose engine renders messages itself."""

    def check(self, pack: CheckedPack) -> Iterator[Finding]:
        name, model = "tools", pack.manifest.run_settings.tokenizer_of()
        if not pack.manifest.backend.renders_messages:
            return
        found = ((task, text) for task, texts in pack.prompts.items() for text in texts if offers_tools(text))
        task, text = next(found, (None, ""))
        if task is None:
            return
        template = find_chat_template(model)
        if template is None:
            yield not_checked(
                name, f"no chat template of {model} on this machine to see whether prompts will hold them"
            )
            return
        try:
            lost = loses_tools(json.loads(text), template)
        except ValueError as error:
            yield not_checked(name, f"{task}: {error}")
            return
        if lost:
            yield failed(
                name,
                f"{task}: the chat template of {model} renders a doc with tools as it does without",
                "Serve the model with a template that has tools, such as its own for tool use",
            )
        else:
            yield passed(name, "the model's chat template renders them")
