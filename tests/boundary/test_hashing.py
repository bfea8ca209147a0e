"""Digests of text, bytes, JSON, pieces and files agree with SHA-256 and with each other."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta_eval.base.hashing import hash_bytes, hash_file, hash_json, hash_pieces, hash_text


@given(st.lists(st.text(st.characters())))
def test_every_kind_of_content_has_the_digest_of_its_bytes(pieces: list[str]) -> None:
    text = "".join(pieces)
    content = text.encode("utf-8", "surrogatepass")
    assert hash_text(text) == hash_bytes(content) == hashlib.sha256(content).hexdigest()
    assert (
        hash_pieces(pieces) == hashlib.sha256(b"".join(p.encode("utf-8", "surrogatepass") for p in pieces)).hexdigest()
    )
    assert hash_json({"b": pieces, "a": 1}) == hash_text(json.dumps({"a": 1, "b": pieces}))


@pytest.mark.parametrize("content", [b"", b"a\r\n\xff" * 100])
def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert hash_file(path) == hash_bytes(content)


def test_half_of_a_surrogate_pair_has_a_digest() -> None:
    assert hash_text("\ud800") == hashlib.sha256(b"\xed\xa0\x80").hexdigest()
