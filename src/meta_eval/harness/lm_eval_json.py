"""JSON as lm-eval writes it into samples, and its hash of a text."""

from __future__ import annotations

import json
from typing import Any


def format_as_lm_eval(value: Any) -> str:
    """The text of a doc in a samples file: indented, with what JSON cannot hold converted as lm-eval does."""
    from lm_eval.utils import handle_non_serializable

    return json.dumps(value, indent=2, default=handle_non_serializable, ensure_ascii=False)


def hash_as_lm_eval(text: str) -> str:
    """The hash that lm-eval writes of a doc, a prompt or a target."""
    from lm_eval.utils import hash_string

    digest: str = hash_string(text)
    return digest
