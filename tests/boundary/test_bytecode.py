"""Foreign bytecode is compared with its source without being loaded."""

from __future__ import annotations

import marshal
import random
import struct
from pathlib import Path
from types import CodeType

import pytest

from meta_eval.base import bytecode, inputs
from meta_eval.base.bytecode import is_bytecode_of

SOURCE = b"""
import re
NAMES = {"a": (1, 2.5, -0.0, 3j, None, True, ..., 2**80, b"bytes", "t\xc3\xa9xt", "long " * 90)}
def outer(value, *, other=frozenset(("x", "y", (1, 2)))):
    def inner(): return value in {"x", "y", ("p", 1)} and value[1:2] == "na\xc3\xafve"
    try: return inner()
    except ValueError: return [lambda: None for _ in NAMES]
"""


def build(source: bytes, name: str = "elsewhere") -> CodeType:
    code: CodeType = compile(source, name, "exec", dont_inherit=True)
    return code


RAW = marshal.dumps(build(SOURCE))


@pytest.mark.parametrize("module", [bytecode, inputs], ids=lambda module: module.__name__)
def test_bytecode_of_a_module_is_its_own(module: object) -> None:
    source = Path(str(module.__file__)).read_bytes()  # type: ignore[attr-defined]
    for name in ("a", "b" * 5000):
        assert is_bytecode_of(marshal.dumps(build(source, name)), source, "c")


# Python 3.14 writes slices as constants, which older forms do not have.
@pytest.mark.parametrize("version", range(3 if marshal.version < 5 else 5, marshal.version + 1))
def test_the_form_of_bytecode_does_not_matter(version: int) -> None:
    assert is_bytecode_of(marshal.dumps(build(SOURCE), version), SOURCE, "c")


@pytest.mark.parametrize(
    ("old", "new"), [(b"2.5", b"2.4"), (b"-0.0", b"0.0"), (b"2**80", b"2**81"), (b'b"bytes"', b'"bytes"'), (b"True", b"1"),
                     (b'(1, 2)', b'(1, 3)'), (b"1:2", b"1:3"), (b"outer", b"other"), (b"3j", b"4j"), (b"None", b"...")],
)  # fmt: skip
def test_another_source_is_noticed(old: bytes, new: bytes) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert not is_bytecode_of(marshal.dumps(build(changed)), SOURCE, "c")


def test_what_counts_as_equal_is_equal() -> None:
    """Of bytes changed at random, what is taken for the source's is so for Python too."""
    draw = random.Random(1)
    for _ in range(300):
        raw = bytearray(RAW)
        raw[draw.randrange(len(raw))] = draw.randrange(256)
        if is_bytecode_of(bytes(raw), SOURCE, "c"):
            assert marshal.loads(bytes(raw)) == build(SOURCE)


HOSTILE = {
    "nothing": b"",
    "a tuple of 2**31 - 1": b"(" + struct.pack("<I", 2**31 - 1),
    "a number of 2**31 digits": b"l" + struct.pack("<i", -(2**31)),
    "a text of 4 GiB": b"u" + b"\xff" * 4,
    "deep": b")\x01" * 10**5 + b"N",
    "a tuple of itself": b"\xa9\x01r" + bytes(4),
    "each part twice the former": b"\xa9\x02NN"
    + b"".join(b"\xa9\x02" + 2 * (b"r" + struct.pack("<I", place)) for place in range(60)),
    "one large text often": b"\xdb\x02\0\0\0" + b"\xf5" + struct.pack("<I", 10**5) + b"x" * 10**5 + 10**4 * (b"r" + bytes(4)),
    "of an unknown type": b"?",
    "more than code": RAW + b"N",
    "no code": marshal.dumps(1),
}  # fmt: skip


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_are_other_bytecode(raw: bytes) -> None:
    assert not is_bytecode_of(raw, SOURCE, "c")
