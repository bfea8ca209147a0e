"""Compares foreign bytecode with source code, without loading it.

`marshal.loads` trusts its input: 21 bytes make it ask for 16 GiB, and others end the process. So the bytes are only
walked over, and never become objects. The format is that of CPython's ``Python/marshal.c``, versions 4 and 5.
"""

from __future__ import annotations

import marshal
from types import CodeType

# How often the bytes of own bytecode may be copied while foreign bytecode is read: parts are copied into what holds
# them, as deep as functions are nested in functions.
_MOST_COPIES = 64

# The most bytes of a file name, which may be longer than the code.
_LONGEST_NAME = 2**14

# The most bytes of own bytecode.
_MOST = 2**30

_FLAG_REF = 0x80

# Bytes of the content after the type.
_FIXED = {b"0": 0, b"N": 0, b"F": 0, b"T": 0, b"S": 0, b".": 0, b"i": 4, b"I": 8, b"g": 8, b"y": 16}

# Texts and bytes, each with the bytes of its length. Whether a text is interned or ASCII says nothing about it.
_TEXTS = {b"s": 4, b"t": 4, b"u": 4, b"a": 4, b"A": 4, b"z": 1, b"Z": 1}

# Collections, each with the bytes of its length, and as what it counts.
_COLLECTIONS = {b"(": (4, b"("), b")": (1, b"("), b"[": (4, b"["), b"<": (4, b"<"), b">": (4, b">")}

# A code object: five numbers; the objects code, consts, names, localsplusnames and localspluskinds; the file name; name
# and qualname; the first line; linetable and exceptiontable.
_NUMBERS, _OBJECTS, _NAMES, _TABLES = 5 * 4, 5, 2, 2


def is_bytecode_of(bytecode: bytes, source: bytes, name: str) -> bool:
    """Whether bytecode, without its header, is what this Python makes of a source. The file name in it may be another.

    Args:
        bytecode: What may be of anyone.
        source: The code, which is trusted.
        name: Its file name.

    Raises:
        SyntaxError, ValueError: The source is not Python.
    """
    code: CodeType = compile(source, name, "exec", dont_inherit=True)
    try:
        own = _Walker(marshal.dumps(code), _MOST).walk_all()
        return _Walker(bytecode, len(own) + _LONGEST_NAME).walk_all() == own
    except (_OddError, RecursionError):
        return False


class _OddError(Exception):
    """These are not the bytes that marshal writes for code of this size."""


class _Walker:
    """Reads marshalled code into bytes in which the same code is always the same: references are followed, texts have a
    single form, file names are left out.

    Args:
        raw: The bytes.
        longest: The most bytes that it may become.
    """

    def __init__(self, raw: bytes, longest: int) -> None:
        self._raw, self._at, self._longest, self._copied = raw, 0, longest, 0
        self._refs: list[bytes | None] = []

    def walk_all(self) -> bytes:
        """Raises: _OddError: It is not code, or longer than that."""
        walked = self._walk()
        if self._at != len(self._raw):
            raise _OddError
        return walked

    def _walk(self) -> bytes:
        first = self._take(1)[0]
        kind, is_shared = bytes([first & ~_FLAG_REF]), bool(first & _FLAG_REF)
        if kind == b"r":
            return self._follow(self._count(4))
        place = len(self._refs)
        if is_shared:
            self._refs.append(None)  # what refers to itself is no code
        made = self._walk_content(kind)
        self._copied += len(made)
        if len(made) > self._longest or self._copied > _MOST_COPIES * self._longest:
            raise _OddError
        if is_shared:
            self._refs[place] = made
        return made

    def _walk_content(self, kind: bytes) -> bytes:
        if kind in _FIXED:
            return kind + self._take(_FIXED[kind])
        if kind in _TEXTS:
            content = self._take(self._count(_TEXTS[kind]))
            if kind in b"aAzZ" and not content.isascii():  # it would be read as Latin-1
                raise _OddError
            return (b"s" if kind == b"s" else b"u") + len(content).to_bytes(4, "little") + content
        if kind == b"l":
            digits = int.from_bytes(self._take(4), "little", signed=True)
            return kind + digits.to_bytes(4, "little", signed=True) + self._take(2 * abs(digits))
        if kind in _COLLECTIONS:
            width, kind = _COLLECTIONS[kind]
            count = self._count(width)
            items = [self._walk() for _ in range(count)]
            if kind in b"<>":  # of a set
                items.sort()
            return kind + count.to_bytes(4, "little") + b"".join(items)
        if kind == b":":
            return kind + b"".join(self._walk() for _ in range(3))
        if kind == b"c":
            numbers, objects = self._take(_NUMBERS), [self._walk() for _ in range(_OBJECTS)]
            if not self._walk().startswith(b"u"):  # the file name
                raise _OddError
            names, line = [self._walk() for _ in range(_NAMES)], self._take(4)
            tables = [self._walk() for _ in range(_TABLES)]
            return kind + numbers + b"".join((*objects, *names, line, *tables))
        raise _OddError

    def _follow(self, number: int) -> bytes:
        made = self._refs[number] if number < len(self._refs) else None
        if made is None:
            raise _OddError
        self._copied += len(made)
        if self._copied > _MOST_COPIES * self._longest:
            raise _OddError
        return made

    def _count(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _take(self, count: int) -> bytes:
        taken = self._raw[self._at : self._at + count]
        if len(taken) < count:
            raise _OddError
        self._at += count
        return taken
