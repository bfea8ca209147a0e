"""Reads all foreign files. None of them can hang a command or fill its memory.

Only regular files are read, up to a limit for each kind. Named pipes and devices are refused.
``tests/test_layout.py`` lists the few modules that may open files in another way.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import quoted
from meta_eval.base.errors import UserError, suggest_name

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def format_json(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    """Format a value as a line of JSON. Non-ASCII text stays readable unless it holds a lone surrogate.

    Args:
        value: Any JSON value.
        default: Converts other values, as in `json.dumps`.

    Raises:
        TypeError: JSON cannot hold the value.
    """
    text = json.dumps(value, ensure_ascii=False, default=default)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, default=default)
    return text


def parse_loose_json(content: bytes | str) -> Any:
    """Parse JSON that Python or a server wrote. Fast; does not check the depth.

    Raises:
        TooDeepError: The tree is too deep for Python's parser.
        ValueError: The text is not JSON, or not UTF-8.
    """
    import orjson

    try:
        return orjson.loads(content) if len(content) <= _MIB else _parse_fast(content)
    except orjson.JSONDecodeError:
        try:
            return json.loads(content)  # accepts NaN, Infinity and lone surrogates
        except RecursionError:
            raise TooDeepError from None


def parse_foreign_json(content: bytes | str) -> Any:
    """Parse JSON that a stranger wrote. Lone surrogates, which UTF-8 cannot encode, become U+FFFD.

    Raises:
        RepeatedNameError: As in `refuse_repeated_names`.
        TooDeepError: The text needs Python's parser, and the tree has more than `MAX_DEPTH` levels.
        ValueError: The text is not JSON, or not UTF-8.
    """
    import orjson

    refuse_repeated_names(content)
    try:
        return _parse_fast(content)
    except orjson.JSONDecodeError:  # also for a lone surrogate
        return parse_json(content)


def refuse_repeated_names(content: bytes | str) -> None:
    """Refuse a JSON text with an object that has a name twice: parsers keep the last value, and say nothing.

    Logs of other harnesses, answers that others wrote, and replies of servers are checked, which takes about as long as
    parsing them. Samples of lm-eval, which are the largest, answers that `meta-eval run` wrote, and events of streams,
    of which a server sends one a token, are not.

    Raises:
        RepeatedNameError: It has one.
        TooDeepError: It is too deep for Python's parser.
    """
    try:
        text = content if isinstance(content, str) else content.decode(json.detect_encoding(content), "surrogatepass")
        _NAMES.decode(text)
    except RecursionError:
        raise TooDeepError from None
    except RepeatedNameError:
        raise
    except ValueError:
        return  # the parser says what is wrong


def _check_names(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedNameError(max(names, key=names.count))


_NAMES = json.JSONDecoder(object_pairs_hook=_check_names, parse_int=float)


def _parse_fast(content: bytes | str) -> Any:
    import orjson

    if len(content) > _MIB:
        bytearray(_TREE * len(content))  # orjson would end the process where memory runs out; this is a MemoryError
    return orjson.loads(content)


# Nesting limit for every tree that is read here. Code that walks a tree is recursive, and Python's stack is small.
MAX_DEPTH = 100

_MIB = 2**20

# How many times the size of a JSON text Python's tree of it takes, about.
_TREE = 5

# Files that are read whole: code, YAML, settings, manifests.
MAX_FILE = 64 * _MIB

# Files that are hashed or read in pieces: rows, samples, answers.
MAX_DATA = 16 * 2**30


# A Git LFS pointer: its first bytes and its maximum size (git-lfs/spec).
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1024
POINTER = "a Git LFS pointer and not the file itself: run `git lfs pull` there"

# The first bytes of compressed files (RFC 1952, RFC 8878, and the formats of bzip2, xz and zip).
_COMPRESSED = {
    "gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0", "zip": b"PK\3\4",
}  # fmt: skip

_PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")

# Names of a folder that a missing file's name is compared with.
_MOST_ENTRIES = 1000


class TooDeepError(ValueError):
    """A tree has more than `MAX_DEPTH` levels."""

    def __init__(self) -> None:
        super().__init__(f"is nested more than {MAX_DEPTH} deep")


class RepeatedNameError(ValueError):
    """An object of a JSON text has a name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(f"names {quoted(name)} twice in one object")


class InputError(UserError):
    """A file cannot be read, is not a regular file, or is too large."""


class PointerError(OSError):
    """The file is a Git LFS pointer."""


# Sets of real paths to which each opened file is added.
_noting: list[set[str]] = []


@contextmanager
def noting_files() -> Iterator[set[str]]:
    """Collect the real paths of the files that are opened in this block, by any thread."""
    opened: set[str] = set()
    _noting.append(opened)
    try:
        yield opened
    finally:
        _noting.remove(opened)


def open_regular(path: Path, *, buffering: int = 2**17, noted: bool = True) -> BufferedReader:
    """Open a regular file for reading. Never blocks, even on a named pipe.

    Args:
        path: The file.
        buffering: The size of the buffer, in bytes.
        noted: Whether `noting_files` collects it.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is a Git LFS pointer.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        what = "a folder, not a file" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise OSError(0, f"it is {what}", str(path))
    if _noting and noted:
        place = _find_real_path(number, path)
        for opened in _noting:
            opened.add(place)
    file: BufferedReader = BufferedReader(FileIO(number), buffering)
    if len(_POINTER) < status.st_size <= _POINTER_BYTES and file.peek(len(_POINTER)).startswith(_POINTER):
        file.close()
        raise PointerError(0, f"it is {POINTER}", str(path))
    return file


def _find_real_path(number: int, path: Path) -> str:
    """Of an open file. Linux knows it; elsewhere each folder above is looked at."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115 (of every file that is opened)
    except OSError:
        return os.path.realpath(path)


def is_pointer(path: Path) -> bool:
    """Whether a file is a Git LFS pointer.

    Raises:
        OSError: The file cannot be opened, or is not a regular file.
    """
    try:
        open_regular(path).close()
    except PointerError:
        return True
    return False


def read_regular(path: Path, *, limit: int = MAX_FILE, noted: bool = True) -> bytes:
    """Read a regular file of at most ``limit`` bytes, whatever size it reports. ``noted`` is that of `open_regular`.

    Raises:
        OSError: The file cannot be read, is not a regular file (or is an empty system file), or is too large.
    """
    with open_regular(path, buffering=2**13, noted=noted) as file:
        # To ask for more than there is would make room for it, which takes longer than a small file.
        size = min(limit, os.fstat(file.fileno()).st_size)
        content = file.read(size + 1)
        if content is not None and len(content) > size:
            content += file.read(limit - size) or b""
    if content is None:
        raise OSError(0, "it is empty", str(path))
    if len(content) > limit:
        raise OSError(0, f"it is larger than {max(limit // _MIB, 1)} MiB", str(path))
    return content


def read_text(path: Path, *, limit: int = MAX_FILE, hint: str | None = None) -> str:
    r"""Read a text file with ``\n`` line ends.

    Raises:
        InputError: The file cannot be read, is larger than ``limit`` bytes, or is not UTF-8.
    """
    try:
        return read_regular(path, limit=limit).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        raise InputError(f"cannot be read: {describe_error(error)}", where=str(path), hint=hint) from None


def open_data(path: Path) -> BufferedReader:
    """Open a regular file of at most `MAX_DATA` bytes.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is too large.
    """
    file = open_regular(path, buffering=2**17)
    if os.fstat(file.fileno()).st_size > MAX_DATA:
        file.close()
        raise OSError(0, f"it is larger than {MAX_DATA // 2**30} GiB", str(path))
    return file


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a parquet file. Names of parent folders never become columns.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is larger than `MAX_DATA`.
        pyarrow.ArrowException: The file is not parquet.
    """
    import pyarrow.parquet as pq

    open_data(path).close()  # pyarrow would block on a pipe
    with pq.ParquetFile(path) as parquet:
        yield parquet


def read_table(path: Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a parquet file, or some of its columns.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is larger than `MAX_DATA`.
        pyarrow.ArrowException: The file is not parquet.
        ValueError: A column is missing.
    """
    with open_parquet(path) as parquet:
        missing = [name for name in columns or () if name not in parquet.schema_arrow.names]
        if missing:
            raise ValueError(f"has no column {missing[0]}")
        return parquet.read(columns=None if columns is None else list(columns))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON, and check the tree with `check_tree`.

    Raises:
        TooDeepError: The tree has more than `MAX_DEPTH` levels.
        ValueError: The text is not JSON, or not UTF-8.
    """
    try:
        return check_tree(json.loads(text))
    except RecursionError:
        raise TooDeepError from None


def check_tree(tree: Any) -> Any:
    """Make a tree safe to walk and write. Lone surrogates, which UTF-8 cannot encode, become U+FFFD.

    Raises:
        TooDeepError: The tree has more than `MAX_DEPTH` levels.
    """
    if is_deep(tree):
        raise TooDeepError
    return _with_whole_pairs(tree)


def _with_whole_pairs(tree: Any) -> Any:
    if isinstance(tree, str):
        return tree if tree.isascii() else tree.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(tree, list):
        return [_with_whole_pairs(item) for item in tree]
    if isinstance(tree, dict):
        return {_with_whole_pairs(key): _with_whole_pairs(value) for key, value in tree.items()}
    return tree


def describe_form(start: bytes) -> str | None:
    """What a file is instead of UTF-8 text, and what to do, from its first bytes; None if they do not show it."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16 and not UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`"
    kind = next((kind for kind, magic in _COMPRESSED.items() if start.startswith(magic)), None)
    return kind and f"it is compressed ({kind}): unpack it"


def is_packed(path: PurePath) -> bool:
    """Whether a file has the name of data, and behind it that of a compression: ``samples.jsonl.gz``."""
    return path.suffix in _PACKED and path.with_suffix("").suffix in (".json", ".jsonl", ".csv", ".parquet")


def explain_form(path: Path) -> str | None:
    """Why a file with the name of data cannot be read, and what to do, from its name and first bytes; None if they do
    not show it."""
    if is_packed(path):
        return "is compressed, and not read so: unpack it"
    if path.suffix not in (".json", ".jsonl", ".csv"):
        return None
    try:
        with open_regular(path, noted=False) as file:
            start = file.read(8)
    except OSError:
        return None
    form = describe_form(start) if start else "it is empty: copy it again, or take it away"
    return form and f"cannot be read: {form}"


def describe_error(error: Exception) -> str:
    """The error in one line, without the path. Messages name the path anyway."""
    if isinstance(error, UnicodeDecodeError) and (form := describe_form(error.object[:8])):
        return form
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, FileNotFoundError) and isinstance(error.filename, str):
        return f"there is no such file{suggest_path(Path(error.filename))}"
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:300] or type(error).__name__


def explain_locked(folder: Path) -> str | None:
    """Why a folder cannot be listed; None where it can be, or is no folder."""
    try:
        next(iter(folder.iterdir() if folder.is_dir() else ()), None)
    except OSError as error:
        return f"cannot be read ({describe_error(error)})"
    return None


def walk(root: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk`, which passes over no folder that may not be read.

    Raises:
        InputError: One may not.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # it went meanwhile
            inside = os.path.relpath(error.filename, root)
            which = "cannot be read" if inside == "." else f"holds {inside}, which cannot be read"
            hint = "Allow it (chmod u+rx), or take it out" if isinstance(error, PermissionError) else "Name a folder"
            raise InputError(f"{which}: {describe_error(error)}", where=str(root), hint=hint)

    yield from os.walk(root, onerror=refuse)


def walk_files(root: Path) -> Iterator[Path]:
    """What is below a folder, at any depth, and is no folder, in any order.

    Raises:
        InputError: A folder may not be read.
    """
    return (Path(folder, name) for folder, _, names in walk(root) for name in names)


def is_path(name: str) -> bool:
    """Whether a name has the form of a path, and not of an id on the hub: ``owner/name``."""
    return name.startswith((".", "/", "~", "\\")) or name.count("/") > 1


def suggest_path(path: Path) -> str:
    """The text ``; did you mean 'x'?`` for the nearest names in the folder of a missing path, or an empty string. Of a
    link whose target is missing, that it is one."""
    try:
        if path.is_symlink():
            return "; it is a link to nothing"
        with os.scandir(path.parent) as entries:
            return suggest_name(path.name, [entry.name for entry in islice(entries, _MOST_ENTRIES)])
    except (OSError, ValueError):
        return ""


def is_address(path: str) -> bool:
    """Whether a name has the form of an address, as ``https://host/file`` or ``s3://bucket``, and not of a path."""
    return re.match(r"[A-Za-z][\w+.-]*://", path) is not None


def check_path(path: str, *, where: str) -> None:
    """Refuse what names no file or folder, and what Python would take for another: nothing, or an address.

    Raises:
        InputError: It is empty, or has the form of an address.
    """
    if not path:
        what = "is empty, as where a script names a variable that is not set"
        raise InputError(what, where=where, hint="Name a file or folder")
    if is_address(path):
        hint = "Fetch it or mount it, and name its path"
        raise InputError(f"{path} is an address, and a path of this machine is needed", where=where, hint=hint)


def expand_home(path: str, *, where: str | None = None) -> Path:
    """Expand ``~`` and ``~user`` in a path.

    Raises:
        InputError: The user does not exist.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0]
        raise InputError(
            f"there is no user {user!r} on this machine", where=where, hint=f"Write ./{path} if it is a file name"
        ) from None


def is_deep(tree: Any) -> bool:
    """Whether a tree of dicts and lists has more than `MAX_DEPTH` levels."""
    level = [tree] if isinstance(tree, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            value
            for node in level
            for value in (node.values() if isinstance(node, dict) else node)
            if isinstance(value, (dict, list))
        ]
        if not level:
            return False
    return True
