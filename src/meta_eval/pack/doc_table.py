"""Docs as an arrow table and as a file, like ``pyarrow.Table.from_pylist`` but without importing pandas.

pyarrow imports pandas to look for pandas' nulls in Python values. That takes more time and memory than the conversion.
Templates make texts, numbers, booleans, lists and dicts; their buffers are filled here. pyarrow converts all other
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# The column of a recorded run's docs with the task's own doc as JSON.
RECORDED_DOC = "recorded_doc"

_MOST_BYTES = 2**31 - 1  # limit of the 32-bit offsets of a text array


def make_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of rows, with the columns of the first.

    Raises:
        pyarrow.ArrowException, ValueError, TypeError, OverflowError: As from_pylist.
    """
    import pyarrow as pa

    names = list(rows[0]) if rows else []
    return pa.Table.from_arrays([make_column([row.get(name) for row in rows]) for name in names], names=names)


def make_column(values: Sequence[Any]) -> Any:
    """An array of values with the type that ``pyarrow.array`` infers; chunked where pyarrow's would be."""
    import numpy as np
    import pyarrow as pa

    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    fill = _FILL.get(kinds.pop()) if len(kinds) == 1 else None
    filled = fill(values) if fill else None
    if filled is None:
        return pa.array(values)
    kind, buffers, children = filled
    is_set = [value is not None for value in values]
    gaps = is_set.count(False)
    valid = pa.py_buffer(np.packbits(is_set, bitorder="little")) if gaps else None
    return pa.Array.from_buffers(kind, len(values), [valid, *buffers], gaps, children=children)


# For values of a single kind and nulls: type, buffers after the null buffer, child arrays. None: leave it to pyarrow.
_Filled = tuple[Any, list[Any], list[Any] | None] | None


def _offsets(lengths: Sequence[int]) -> Any:
    import numpy as np
    import pyarrow as pa

    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    return pa.py_buffer(ends)


def _texts(values: Sequence[str | None]) -> _Filled:
    import pyarrow as pa

    texts = [b"" if value is None else value.encode() for value in values]
    data = b"".join(texts)
    if len(data) > _MOST_BYTES:
        return None
    return pa.string(), [_offsets(list(map(len, texts))), pa.py_buffer(data)], None


def _floats(values: Sequence[float | None]) -> _Filled:
    import numpy as np
    import pyarrow as pa

    return (
        pa.float64(),
        [pa.py_buffer(np.array([0.0 if value is None else value for value in values], np.float64))],
        None,
    )


def _integers(values: Sequence[int | None]) -> _Filled:
    import numpy as np
    import pyarrow as pa

    try:
        return pa.int64(), [pa.py_buffer(np.array([value or 0 for value in values], np.int64))], None
    except OverflowError:
        return None


def _booleans(values: Sequence[bool | None]) -> _Filled:
    import numpy as np
    import pyarrow as pa

    return pa.bool_(), [pa.py_buffer(np.packbits([bool(value) for value in values], bitorder="little"))], None


def _lists(values: Sequence[list[Any] | None]) -> _Filled:
    import pyarrow as pa

    items = make_column([item for value in values if value is not None for item in value])
    if not isinstance(items, pa.Array) or len(items) > _MOST_BYTES:
        return None
    return pa.list_(items.type), [_offsets([len(value or ()) for value in values])], [items]


def _dicts(values: Sequence[dict[Any, Any] | None]) -> _Filled:
    import pyarrow as pa

    names = list(dict.fromkeys(name for value in values if value is not None for name in value))
    if not all(type(name) is str for name in names):
        return None
    parts = [make_column([None if value is None else value.get(name) for value in values]) for name in names]
    if not all(isinstance(part, pa.Array) for part in parts):
        return None
    return pa.struct([pa.field(name, part.type) for name, part in zip(names, parts, strict=True)]), [], parts


_FILL: Mapping[type, Any] = {
    str: _texts,
    float: _floats,
    int: _integers,
    bool: _booleans,
    list: _lists,
    dict: _dicts,
}


def have_one_layout(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all rows have the same keys at every level, each with values of a single arrow type."""
    return all(map(_ColumnKind().takes, rows))


class _ColumnKind:
    """The type of a column, at any level. None fits every type."""

    __slots__ = ("inner", "kind")

    def __init__(self) -> None:
        self.kind: type | tuple[str, ...] | None = None  # the keys of a dict
        self.inner: list[_ColumnKind] = []  # for each key of a dict; a single item for a list

    def takes(self, value: object) -> bool:
        """Whether arrow has its type, and the values before it have the same type."""
        if value is None:
            return True
        kind = tuple(value) if isinstance(value, dict) else type(value)
        if kind != self.kind:
            if self.kind is not None:
                return False
            self.kind, self.inner = kind, [_ColumnKind() for _ in (kind if isinstance(kind, tuple) else (None,))]
        if isinstance(value, str):
            return True
        if isinstance(value, dict):
            return all(
                place.takes(item)
                for place, item in zip(self.inner, value.values(), strict=True)
                if item is not None and not (place.kind is str and type(item) is str)  # a text among texts, as most are
            )
        if isinstance(value, list):
            return all(map(self.inner[0].takes, value))
        return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def encode_parquet(table: pa.Table) -> bytes:
    """A table as a zstd-compressed parquet file: the same bytes for the same table and pyarrow version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def begin_parquet(table: pa.Table) -> Future[bytes]:
    """Start `encode_parquet` in a new thread."""
    threads = ThreadPoolExecutor(1)
    done = threads.submit(encode_parquet, table)
    threads.shutdown(wait=False)
    return done
