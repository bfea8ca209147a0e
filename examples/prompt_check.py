"""A check of `meta-eval doctor`: no prompt may hold a placeholder that nobody filled in.

Name it in your package's pyproject.toml, and `meta-eval doctor PACK` shows its line:

    [project.entry-points."meta_eval.checks"]
    placeholders = "prompt_check:PlaceholderCheck"
"""

import re
from collections.abc import Iterator

from meta_eval.sockets import Check, CheckedPack, Finding, failed, not_checked, passed

PLACEHOLDER = re.compile(r"\bTODO\b|\{\{ *\w+ *\}\}")


class PlaceholderCheck(Check):
    def check(self, pack: CheckedPack) -> Iterator[Finding]:
        seen = 0
        for task, prompts in pack.prompts.items():
            for number, prompt in enumerate(prompts):
                seen += 1
                if found := PLACEHOLDER.search(prompt):
                    yield failed("placeholders", f"{task}: the prompt of doc {number} holds {found[0]}", "Fill it in")
                    return
        if seen:
            yield passed("placeholders", f"none in {seen:,} prompts")
        else:
            yield not_checked("placeholders", "the pack brings no prompts")
