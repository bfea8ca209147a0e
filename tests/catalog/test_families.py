"""What is known of a family of models stands in one data file, which packs bring along."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from marks import thorough
from packs import prepare
from places import REPOSITORY

from meta_eval.harness.families import find_family, list_answer_ends, list_bos_tokens, list_families
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import Identity

FILE = REPOSITORY / "meta_template/_common/families.json"


def test_every_pack_brings_the_file_along(tmp_path: Path) -> None:
    pack = prepare(tmp_path / "pack", "meta_gpqa")
    assert (pack / "_common/families.json").read_bytes() == FILE.read_bytes()


@thorough
def test_special_tokens_stand_nowhere_else() -> None:
    """Docstrings may name them; code takes them from the family, also in patterns."""
    words = {token.strip("<|>") for family in list_families() for token in family.tokens}
    spelled = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    code = [*(REPOSITORY / "src/meta_eval").rglob("*.py"), *(REPOSITORY / "meta_template").rglob("*.py")]
    files = {path.relative_to(REPOSITORY).as_posix() for path in code if spelled.search(_code(path))}
    assert files == set()


def _code(path: Path) -> str:
    """A file without comments and docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.unparse(tree)


@pytest.fixture
def llama3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The first family of the file, to which another is added."""
    llama3, *rest = json.loads(FILE.read_text(encoding="utf-8"))
    other = llama3 | {
        "name": "Quokka 2",
        "evals_dataset": r"Quokka-(?P<family>2)-(?P<size>(?:Tiny-)?\d+B)(?P<instruct>-Instruct)?-evals(?:__.*)?",
        "model": "Quokka-{family}-{size}{instruct}",
        "bos": None,
        "header": ["<|turn|>", ""],
        "after_header": "\n",
        "ends": ["<eos>"],
    }
    file = tmp_path / "families.json"
    file.write_text(json.dumps([llama3, *rest, other]), encoding="utf-8")
    monkeypatch.setattr("meta_eval.base.assets.read_asset", lambda name: file.read_bytes())
    list_families.cache_clear()
    yield llama3
    list_families.cache_clear()


def test_another_family_is_an_entry(llama3: dict[str, Any]) -> None:
    family = find_family("Quokka-2-7B")
    assert (family.head("user"), family.openings) == ("<|turn|>user\n", ("<|turn|>",))
    assert "" not in (*family.tokens, *list_bos_tokens())
    assert find_family("some-model").name == "Llama 3"
    assert catalog.identify_dataset("org/Quokka-2-7B-Instruct-evals") == Identity(
        "Quokka-2-7B-Instruct", "2", "instruct"
    )
    assert catalog.identify_dataset("quokka-2-tiny-7b-evals").model == "Quokka-2-Tiny-7B"
    assert list_bos_tokens().count(llama3["bos"]) == 1
    assert list_answer_ends()[-1] == "<eos>"


@pytest.mark.plugin("tokens")
@pytest.mark.usefixtures("llama3")
def test_the_prompts_of_another_family_are_perturbed_by_its_tokens() -> None:
    from meta_eval.plugins.tokens.perturbations import NO_BOS, NO_HEADERS, make_perturbations

    prompt = "<|turn|>user\nTwo\nlines<eos><|turn|>assistant\n"
    probes = dict(
        make_perturbations(prompt, [*map(ord, prompt)], [2], None, lambda text: [*map(ord, text)], lambda _: [])
    )
    assert "".join(map(chr, probes[NO_HEADERS][0])) == "Two\nlines"
    assert NO_BOS not in probes
