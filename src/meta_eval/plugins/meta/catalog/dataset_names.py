"""Parses the names of evals datasets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from meta_eval.harness.families import list_families
from meta_eval.pack.templates.spec import Variant

# The name of the embedded sample.
SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class Identity:
    """The family, variant and model of an evals dataset. Each is None if unknown."""

    model: str | None
    """Model name without the organisation, such as ``Llama-3.1-8B-Instruct``."""

    family: str | None
    """``3.1``, ``3.2`` or ``3.3``."""

    variant: Variant | None
    """``instruct`` or ``pretrain``."""


# Words of model names.
_INSTRUCT = frozenset(("instruct", "chat", "it"))
_BASE = frozenset(("base", "pretrain", "pretrained", "pt"))

# Words in names of models that are no Llama, whatever else the name says.
_OTHER_FAMILIES = frozenset(
    (
        "deepseek", "falcon", "gemma", "gpt", "granite", "ministral", "mistral", "mixtral", "nemo", "olmo", "phi",
        "pythia", "qwen", "qwq", "smollm", "yi",
    )
)  # fmt: skip

NOBODY = Identity(None, None, None)


def parse_identity(name: str) -> Identity:
    """Parse the last path component of a hub id, a folder or a config name.

    A name such as ``Llama-3.1-8B-Instruct-evals`` fits, in any case, with or without the former ``Meta-``. Otherwise
    all fields are None.
    """
    last = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    for family in list_families():
        if match := family.match(last):
            instruct = "-Instruct" if match["instruct"] else ""
            model = (family.model or "").format(family=match["family"], size=_spell(match["size"]), instruct=instruct)
            return Identity(model, match["family"], "instruct" if instruct else "pretrain")
    return NOBODY


def parse_variant(model_name: str) -> Variant | None:
    """What a model's name says of its training: ``-Instruct``, ``-chat`` and ``-it``, or ``-Base`` and ``-pt``. None
    if it says nothing or both."""
    words = _words(model_name)
    is_instruct, is_base = not words.isdisjoint(_INSTRUCT), not words.isdisjoint(_BASE)
    return None if is_instruct == is_base else "instruct" if is_instruct else "pretrain"


def is_other_family(model_name: str) -> bool:
    """Whether a model's name says that it is no Llama. The name of a Llama that another model was distilled into does
    not say it."""
    words = _words(model_name)
    return not words.isdisjoint(_OTHER_FAMILIES) and not any("llama" in word for word in words)


def _words(model_name: str) -> set[str]:
    """The words of the last part of a model's name."""
    return set(re.split(r"[^a-z]+", re.split(r"[/\\]", model_name.rstrip("/\\"))[-1].lower()))


def _spell(size: str) -> str:
    """Spell a size as in model names: ``8B``, ``Tiny-2B``."""
    return "-".join(part.upper() if part[:1].isdigit() else part.capitalize() for part in size.split("-"))


def merge_identities(names: Iterable[str]) -> Identity:
    """Merge the identities of several names, and skip unknown names. All None if two differ."""
    identities = {identity for name in names if (identity := parse_identity(name)) != NOBODY}
    return identities.pop() if len(identities) == 1 else NOBODY
