"""The keys of the configuration that the plug-in declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import REPOSITORY

from meta_eval.base.errors import ConfigError
from meta_eval.pack.config import Config, load_config

RECIPE = "model_name: m\nevals_dataset: e\ntasks: t\n"


def load(tmp_path: Path, text: str = RECIPE, *overrides: str) -> Config:
    path = tmp_path / "eval_config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def test_an_original_that_pins_only_a_revision_keeps_its_id_and_loses_its_fallback(tmp_path: Path) -> None:
    pinned = load(tmp_path, RECIPE, "originals.ifeval.revision=abc").originals.ifeval
    assert (pinned.id, pinned.revision, pinned.fallback) == ("wis-k/instruction-following-eval", "abc", None)


def test_the_reference_lists_the_original_of_each_join(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/reference/configuration.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+) \| `(.+?)` \| (?:`(.+?)`)? \| \w+ \|$", page, re.MULTILINE)
    originals = load(tmp_path).model_dump(mode="json")["originals"]
    assert {name: (id_, fallback or None) for name, id_, fallback in listed} == {
        name: (original["id"], original["fallback"]) for name, original in originals.items()
    }


@pytest.mark.parametrize(
    ("line", "overrides", "message"),
    [
        (
            "originals: {mth: {id: x}}",
            (),
            r"yaml:4: originals.mth: there is no such key; did you mean 'math'\? Known keys",
        ),
        ("originals: {math: 3}", (), "yaml:4: originals.math: 3 is not allowed.*Allowed: a mapping such as"),
        ("originals: x", ("originals.math.id=y",), "--set originals.math.id=y: originals: .*not a mapping"),
        ("originals: {math: {id: hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567}}", (), "originals: holds a credential"),
        ("allow_unmatched: perhaps", (), "allow_unmatched: 'perhaps' is not allowed: it must be true or false"),
        ("allow_unmatchd: true", (), "there is no such key; did you mean 'allow_unmatched'"),
    ],
)
def test_a_mistake_is_one_message_with_file_line_and_key(
    tmp_path: Path, line: str, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, f"{RECIPE}{line}\n", *overrides)
