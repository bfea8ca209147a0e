"""Docs as an arrow table and as a file, like ``pyarrow.Table.from_pylist`` but without importing pandas.

pyarrow imports pandas to look for pandas' nulls in Python values. That takes more time and memory than the conversion.
Templates make texts, numbers, booleans, lists and dicts; their buffers are filled here. pyarrow converts all other
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
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
    return _have_one_type(rows)


def _have_one_type(column: Sequence[Any]) -> bool:
    """Whether arrow has a type for all values of a column, at any level. None fits every type."""
    kinds = set(map(type, column)) - {type(None)}
    if len(kinds) != 1:
        return not kinds
    (kind,) = kinds
    if issubclass(kind, str):
        return True
    values = [value for value in column if value is not None]
    if issubclass(kind, dict):
        keys = set(map(tuple, values))
        return len(keys) == 1 and all(_have_one_type([value[key] for value in values]) for key in keys.pop())
    if issubclass(kind, list):
        return _have_one_type(list(chain.from_iterable(values)))
    return not issubclass(kind, int) or (min(values) >= -(1 << 63) and max(values) < 1 << 63)


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
