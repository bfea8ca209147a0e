"""Recognises credentials by name and form. None is printed, logged or written into a pack.

Credentials belong in the environment (HF_TOKEN, a login, proxy settings).
"""

from __future__ import annotations

import re
from functools import cache

HIDDEN = "…"

# Whole names of model arguments and keys. `add_bos_token` and `tokenizer` do not match.
_NAME = (
    r"(?:(?:\w+[_-])?(?:api|access|auth|bearer|hub|hf|huggingface|refresh|secret|session|use_auth|wandb|github)[_-])?token"
    r"|(?:\w+[_-])?(?:api[_-]?key|access[_-]?key(?:[_-]id)?|private[_-]?key|secret(?:[_-]?key)?|passw(?:or)?d|passphrase"
    r"|credentials?|authorization)"
)
# Token formats of known issuers, and user names or passwords in addresses.
_VALUE = (
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-(?:[a-z]+-)?[A-Za-z0-9]{20,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
    r"|(?<=://)[^/?#\s]+(?=@)"
    r"|(?<=bearer )[\w.~+/-]{8,}=*"
)
# Named values in a text: after `=` or JSON's colon. YAML's colon also occurs in prose, so it counts only after names of
# several words.
_REST = r"(?!(?:true|false|none|null)\b)[^\s,;&'\"}]+"
_NAMED = (
    rf"(?<![\w/-])((?:{_NAME})(?:['\"]?\s*=\s*|['\"]\s*:\s*)['\"]?"
    rf"|(?=\w+[_-])(?:{_NAME})\s*:\s*['\"]?|\bauthorization\s*:\s*(?=(?:bearer|basic)\s))"
    rf"((?:(?:bearer|basic)\s+)?){_REST}"
)


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is used: that takes longer than many a command's other imports."""
    return re.compile(pattern, re.IGNORECASE)


def is_secret(name: str, value: object) -> bool:
    """Whether a setting is a credential. ``token=True`` is not: it means the token of the environment."""
    if isinstance(value, bool) or value is None or str(value).lower() in ("true", "false", "none", ""):
        return False
    return bool(_compile(_NAME).fullmatch(name)) or name.lower() in ("auth", "key") or holds_secret(str(value))


def holds_secret(text: str) -> bool:
    """Whether a text contains a credential."""
    return bool(_compile(_VALUE).search(text))


def redact_secrets(text: str) -> str:
    """The text without credentials."""
    return _compile(_VALUE).sub(HIDDEN, _compile(_NAMED).sub(rf"\1\2{HIDDEN}", text))
