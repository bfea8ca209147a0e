"""Opens the two forms of an inspect_ai log: a zip of JSON files (``.eval``), and one JSON file.

A zip holds ``header.json``, and ``samples/ID_epoch_N.json`` for each answer. A run that still writes has no header yet.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from meta_eval.base.display import quoted
from meta_eval.base.inputs import MAX_FILE, describe_error, open_data
from meta_eval.pack.records.log_entries import parse_log
from meta_eval.sockets import DataError, LogEntry, SourceError, peek_log, read_log

# Logs of version 1 have a single score in a sample. Version 3 was that of a few builds, and is as 2.
NEWEST = 3

_SUFFIX = ".eval"

# The largest member, and how many times its size a log may unpack to: real ones to 30 times.
_MOST_BYTES = 2**28
_MOST_RATIO, _FREE_BYTES = 300, 2**26
_MOST_MEMBERS = 2_000_000

_ZIP = b"PK"
_ZSTD, _LOCAL_HEADER = 93, 30
_DAMAGED = "is damaged or cut off"
_HINT = "Use the log of a finished run, as inspect wrote it"


@dataclass(frozen=True, slots=True)
class InspectLog:
    """A log, opened."""

    header: LogEntry
    """All but its samples."""

    path: Path
    """Its file."""

    samples: list[Any] | None
    """Its samples; None if they are members of a zip."""

    def read_samples(self) -> Iterator[LogEntry]:
        """Read its samples, in the order of the file.

        Raises:
            SourceError, DataError: One cannot be read.
        """
        if self.samples is not None:
            for number, sample in enumerate(self.samples, 1):
                yield LogEntry.of(sample, f"{self.path}, sample {number}")
            return
        with _Zip(self.path) as members:
            for name in members.names:
                if name.startswith("samples/") and name.endswith(".json"):
                    where = f"{self.path}, {name}"
                    yield LogEntry.of(parse_log(members.read(name), where), where)


def is_log(path: Path) -> bool:
    """Whether a file is a log of inspect_ai: by its suffix, or by how it begins."""
    if path.suffix == _SUFFIX:
        return True
    if path.suffix != ".json":
        return False
    start = peek_log(path)
    head = b"".join(start[:400].split())
    return (
        head.startswith((b'{"version":', b'{"status":'))
        and b'"status":' in head
        and b'"eval":{' in b"".join(start.split())
    )


def open_log(path: Path) -> InspectLog:
    """Open a log.

    Raises:
        SourceError: It cannot be read, is damaged, or is of another version.
        DataError: It is no log.
    """
    if path.suffix == _SUFFIX and peek_log(path)[:2] != b"{":
        with _Zip(path) as members:
            if "header.json" not in members.names:
                begun = any(name.startswith("_journal/") for name in members.names)
                what = "its run still writes it, or was broken off" if begun else "it is no log of inspect_ai"
                raise SourceError(f"has no header.json: {what}", where=str(path), hint=_HINT)
            header = LogEntry.of(parse_log(members.read("header.json"), f"{path}, header.json"), str(path))
        samples = None
    else:
        header = read_log(path)
        samples = header.find_list("samples")
        header = LogEntry({name: value for name, value in header.tree.items() if name != "samples"}, str(path))
    version = header.find_count("version") or 1
    if not 1 <= version <= NEWEST:
        raise SourceError(
            f"is a log of version {version}, and versions 1 to {NEWEST} are read",
            where=str(path), hint="Convert it with `inspect log convert`",
        )  # fmt: skip
    if "eval" not in header:
        raise DataError("has no 'eval': it is no log of inspect_ai", where=str(path))
    return InspectLog(header, path, samples)


class _Zip:
    """A zip whose members are read with bounds."""

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, 0

    def __enter__(self) -> _Zip:
        try:
            self._file: BinaryIO = open_data(self._path)
        except OSError as error:
            raise SourceError(f"cannot be read: {describe_error(error)}", where=str(self._path)) from None
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._left = _MOST_RATIO * self._path.stat().st_size + _FREE_BYTES
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, UnicodeDecodeError, EOFError):
            self._file.close()
            raise SourceError(f"{_DAMAGED}: it is no zip file", where=str(self._path), hint=_HINT) from None
        self.names = list(dict.fromkeys(self._zip.namelist()))
        contents = {(info.filename, info.CRC, info.file_size) for info in self._zip.infolist()}
        if len(contents) > len(self.names):  # readers differ in which of them counts
            twice = next(name for name, count in Counter(name for name, *_ in contents).items() if count > 1)
            self.__exit__()
            raise SourceError(f"holds {quoted(twice)} twice, and they differ", where=str(self._path), hint=_HINT)
        if len(self.names) > _MOST_MEMBERS:
            self._file.close()
            raise SourceError(f"holds more than {_MOST_MEMBERS:,} files", where=str(self._path), hint=_HINT)
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._file.close()

    def read(self, name: str) -> bytes:
        """Read a member, of whatever size it says to be.

        Raises:
            SourceError: It is damaged, packed in another way, too large, or unpacks to too much.
        """
        where, info = f"{self._path}, {name}", self._zip.getinfo(name)
        most = min(_MOST_BYTES, self._left) + 1
        try:
            if info.compress_type == _ZSTD:
                content = self._read_zstd(info, most)
            else:
                with self._zip.open(info) as member:
                    content = member.read(most)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError):
            raise SourceError(_DAMAGED, where=where, hint=_HINT) from None
        except (NotImplementedError, RuntimeError):
            raise SourceError("is packed in a way that this Python cannot unpack", where=where, hint=_HINT) from None
        if len(content) == most:
            raise SourceError(
                f"unpacks to more than {_MOST_BYTES // 2**20} MiB, or the log to {_MOST_RATIO} times its size: "
                "it is no log of inspect_ai",
                where=where,
                hint=_HINT,
            )
        self._left -= len(content)
        return content

    def _read_zstd(self, info: zipfile.ZipInfo, most: int) -> bytes:
        """Read a member that is packed with zstd, which `zipfile` cannot unpack; pyarrow can."""
        import pyarrow as pa

        self._file.seek(info.header_offset)
        signature, name_length, extra_length = struct.unpack("<4s22xHH", self._file.read(_LOCAL_HEADER))
        if signature != b"PK\3\4" or info.compress_size > MAX_FILE * 4:
            raise zipfile.BadZipFile
        self._file.seek(name_length + extra_length, 1)
        packed = self._file.read(info.compress_size)
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            content: bytes = stream.read(most)
        if len(content) < most and zlib.crc32(content) != info.CRC:
            raise zipfile.BadZipFile
        return content
