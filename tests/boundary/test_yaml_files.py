"""The one YAML loader: plain trees of bounded size, and one message with file and line for everything else."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.base.errors import ConfigError, UserError
from meta_eval.base.yaml_files import parse_yaml, read_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2024-01-01", [":2: ", "is a date", "in quotes"]),
        ("a: 1\nb: {<<: {c: 1}}", [":2: ", "<< (merge)", "Write the keys out"]),
        ("a: !!int 1", [":1: ", "'!!int' is an unsupported YAML tag"]),
        ("a: !!python/object/apply:os.system [x]", [":1: ", "is an unsupported YAML tag"]),
        ("a: !function b.c", [":1: ", "is an unsupported YAML tag"]),
        ("a: " + "9" * 5000, [":1: ", "more digits"]),
        ("a: 0x10", [":1: ", "'0x10'"]),
        ("a: 010", [":1: ", "'010'"]),
        ("a: 1:30", [":1: ", "'1:30'"]),
        ("a: .nan", [":1: ", "no finite number"]),
        ("a: 1.0e+999", [":1: ", "no finite number"]),
        ("a: 1\n\na: 2", [":3: ", "'a' is given twice"]),
        ("{? : 1}", [":1: ", "a key is empty"]),
        ("'': 1", [":1: ", "a key is empty"]),
        ("1: 1", [":1: ", "the key 1 is not text", "in quotes"]),
        ("true: 1", [":1: ", "the key True is not text"]),
        ("? [a]\n: 1", [":1: ", "is not text"]),
        ("a: &x\n  b: *x", [":2: ", "*x refers to itself"]),
        ("a: *x", [":1: ", "*x has no anchor above"]),
        ("a: &x 1\nb: [" + "*x, " * 101 + "]", [":2: ", "100 aliases"]),
        (LAUGHS, [":5: ", "100,000 values"]),
        ("[" * 40, [":1: ", "32 deep"]),
        ("- " * 300_000, [":1: ", "32 deep"]),
        ("{a: " * 200_000, [":1: ", "32 deep"]),
        ("---\na: 1\n---\nb: 2", [":3: ", "second document"]),
        ('a: "\\0"', [":1: ", "not text"]),
        ("a: [", ["is not YAML"]),
        ("a: \x07", ["is not YAML"]),
        ("a: b: c", [":1: ", "is not YAML: a colon in a text without quotes"]),
        ("a: 1\nb: 'x\nc: 2\nd: 3\n", [":2: ", "a quote is not closed"]),
        ("a: 'x\nb: 'y'\nc: 1\n", [":2: ", "here or above, a quote that is not closed, or indentation"]),
        ("a: 'it's'\n", [":1: ", "a quote that is not closed, or indentation"]),
        ("m:\n    x: 1\n  y: 2\n", [":3: ", "a quote that is not closed, or indentation"]),
        ("a: 1\n b: 2\n", [":2: ", "or indentation. Put the text in quotes"]),
        ("a:\n  - 1\n - 2\n", [":3: ", "a quote that is not closed, or indentation"]),
        ("a: 1\nb\nc: 2\n", [":2: ", "a key without a colon"]),
        ('a: 1\nb:"x"\nc: 2\n', [":2: ", "no space behind the colon of 'b'. Write `b: \"x\"`"]),
        ("a: 1\nb:x\nc: 2\n", [":2: ", "no space behind the colon of 'b'"]),
        ("a:x\nb: 2\n", [":1: ", "no space behind the colon of 'a'"]),
        ("a: 1\nhttp://x\nc: 2\n", [":2: ", "a key without a colon"]),
        ("a: {x: 1\nb: 2\n", [":1: ", "a bracket is not closed"]),
        ("a: [1, 2\nb: 2\n", [":1: ", "a bracket is not closed"]),
        ("a:\n\tb: 1\n", [":2: ", "a tab"]),
        ("a: @x\n", [":1: ", "begins with a sign"]),
        ("a: *\n", [":1: ", "begins with * or &"]),
        ('a: "C:\\x"\n', [":1: ", "a backslash in double quotes. Use single quotes"]),
        ("#" * (2**20 + 1), ["larger than 1 MiB"]),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(text: str, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(ConfigError) as caught:
        read_yaml(path, error=ConfigError)
    assert time.process_time() - start < 5
    assert str(caught.value).startswith(str(path))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/proc/self/mem", "folder", "none"])
def test_only_regular_files_are_read(kind: str, tmp_path: Path) -> None:
    import os

    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind != "none":
        path = Path(kind)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(path, error=ConfigError)


def test_aliases_are_values() -> None:
    parsed = parse_yaml("a: &x {b: [1, 2]}\nc: *x\nd: &y text\ne: *y", where="x")
    assert parsed.tree == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "text", "e": "text"}


def test_every_key_and_item_has_its_line() -> None:
    parsed = parse_yaml("a: 1\nb:\n  c:\n  - x\n  - {d: 2}\n", where="x")
    assert parsed.lines == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", 0): 4,
        ("b", "c", 1): 5,
        ("b", "c", 1, "d"): 5,
    }


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**17), 10**17), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(min_size=1), inner, max_size=4)),
    max_leaves=20,
)  # fmt: skip


@given(plain)
def test_values_are_those_of_pyyaml(tree: object) -> None:
    """As lm-eval reads them: both read the pack."""
    text = yaml.safe_dump(tree, allow_unicode=True)
    try:
        parsed = parse_yaml(text, where="x").tree
    except UserError as error:
        # What safe_dump writes and we refuse: a NUL, and half a surrogate pair.
        assert "not text" in str(error) or "not YAML" in str(error)
        return
    assert parsed == yaml.safe_load(text)
