"""Recognises credentials by name and form. None is printed, logged or written into a pack.

Credentials belong in the environment (HF_TOKEN, a login, proxy settings).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

HIDDEN = "…"

# Whole names of model arguments and keys. `add_bos_token` and `tokenizer` do not match.
_NAME = (
    r"(?:(?:\w+[_-])?(?:api|access|auth|bearer|hub|hf|huggingface|refresh|secret|session|use_auth|wandb|github)[_-])?token"
    r"|(?:\w+[_-])?(?:api[_-]?key|access[_-]?key(?:[_-]id)?|private[_-]?key|secret(?:[_-]?key)?|passw(?:or)?d|passphrase"
    r"|credentials?|authorization)"
)
# Token formats of known issuers, and user names or passwords in addresses.
_VALUE = (
    r"(?<![A-Za-z])(?:hf_[A-Za-z0-9]{16,}|sk-(?:[a-z]+-)?[A-Za-z0-9]{20,}|gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|AKIA[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)"
    r"|(?:(?<=://)|(?<=[a-z]:/))[^/?#\s]+(?=@)"  # of a path, too, which has one slash
    r"|(?<=bearer )[\w.~+/-]{8,}=*"
)
# Named values in a text: after `=`, JSON's colon or a flag. YAML's colon also occurs in prose, so it counts only after
# names of several words.
_REST = r"(?!(?:true|false|none|null)\b)[^\s,;&'\"}]+"
_NAMED = (
    rf"(?<![\w/])(?<!\w-)((?:{_NAME})(?:\\*['\"]?\s*=\s*|\\*['\"]\s*:\s*)\\*['\"]?|(?<=--)(?:{_NAME})\s+['\"]?"
    rf"|(?=\w+[_-])(?:{_NAME})\s*:\s*['\"]?|\bauthorization\s*:\s*(?=(?:bearer|basic)\s)|\b(?:set-)?cookie\s*:\s*(?=\S+=)"
    r"|(?<=[?&])(?:key|sig|(?:x-amz-)?signature|x-amz-(?:credential|security-token))=)"
    rf"((?:(?:bearer|basic)\s+)?){_REST}"
)


# What every credential has something of. Most texts have none, and are not searched further.
_HINTS = (
    "=", ":", "--", "hf_", "sk-", "gho_", "ghp_", "ghs_", "ghr_", "ghu_", "github_", "glpat-", "akia", "xox", "eyj",
    "bearer ",
)  # fmt: skip


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
    small = text.lower()
    if not any(hint in small for hint in _HINTS):
        return text
    return _compile(_VALUE).sub(HIDDEN, _compile(_NAMED).sub(rf"\1\2{HIDDEN}", text))


def hide_secrets(tree: Any, *, named: bool = True) -> Any:
    """A tree of JSON without credentials. Its depth is limited where it is read (`meta_eval.base.inputs.MAX_DEPTH`).

    Args:
        tree: The tree.
        named: Whether names of settings tell, too. In a tree of ours ``key`` is a name like any other.
    """
    if isinstance(tree, str):
        return redact_secrets(tree)
    if isinstance(tree, list | tuple):
        return [hide_secrets(item, named=named) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    # Of a tree inside it only the name tells: what else it holds is shown.
    told = {name: HIDDEN if isinstance(value, Mapping | list | tuple) else value for name, value in tree.items()}
    return {
        redact_secrets(str(name)): HIDDEN
        if named and is_secret(str(name), told[name])
        else hide_secrets(value, named=named)
        for name, value in tree.items()
    }
