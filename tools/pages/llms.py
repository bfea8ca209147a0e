"""docs/llms.txt: every page of the navigation with its first sentence, for programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


def values() -> dict[str, Any]:
    """Values for llms.txt.j2."""
    site = YAML(typ="safe").load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    sections: dict[str, list[dict[str, str]]] = {"Start": []}
    for entry in site["nav"]:
        if isinstance(entry, dict) and isinstance(next(iter(entry.values())), list):
            ((title, pages),) = entry.items()
            sections[title] = [_page(page) for page in pages if not _is_gone(page)]
        else:
            sections["Start"].append(_page(entry))
    return {"description": site["site_description"], "sections": sections}


def _is_gone(entry: str | dict[str, str]) -> bool:
    """Whether it is a page of a plug-in that is not there."""
    file = entry if isinstance(entry, str) else next(iter(entry.values()))
    return file.startswith("plugins/") and not (ROOT / "docs" / file).exists()


def _page(entry: str | dict[str, str]) -> dict[str, str]:
    file = entry if isinstance(entry, str) else next(iter(entry.values()))
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs" / file).read_text(encoding="utf-8"), flags=re.DOTALL)
    title, _, rest = text.removeprefix("# ").partition("\n")
    first = " ".join(rest.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.?])\s", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first))[0]
    return {"file": file, "title": title.strip(), "about": sentence}
