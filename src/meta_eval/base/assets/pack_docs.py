"""Loads the docs of a task of this pack. prepare copies this file beside every task's YAML.

lm-eval calls ``load`` with the task's ``dataset_kwargs`` and ``metadata``. Paths are relative to this module, so the
pack works in any place and from any working directory.

Docs of a recorded run may have any shape. They are stored as text and restored on load.
"""

import hashlib
import json
from pathlib import Path
from typing import Any


def load(docs_file: str, sha256: str, beside: dict[str, str] | None = None, **_: Any) -> Any:
    """Load the docs as ``datasets.DatasetDict({"latest": …})``, after a check of their SHA-256.

    Args:
        docs_file: The parquet file, relative to this module's folder.
        sha256: Its hex digest.
        beside: Other files that scoring reads, relative to this module's folder, with their hex digests.
        _: The task's metadata, which lm-eval passes too.

    Raises:
        ValueError: A file is missing, or differs from what prepare wrote.
    """
    import datasets
    import pyarrow
    import pyarrow.parquet

    for name, digest in (beside or {}).items():
        _checked(name, digest)
    with pyarrow.parquet.ParquetFile(_checked(docs_file, sha256)) as parquet:  # half the memory of read_table
        docs = pyarrow.Table.from_batches(parquet.iter_batches(1024), parquet.schema_arrow)
    if "recorded_doc" in docs.column_names:
        return {"latest": RecordedDocs(docs)}
    # Without a given fingerprint, the dataset would pickle its whole content to compute one.
    return datasets.DatasetDict({"latest": datasets.Dataset(docs, fingerprint=sha256[:16])})


class RecordedDocs(list[dict[str, Any]]):
    """Docs as their own task made them, with their recorded columns. Columns of the doc itself are not replaced.

    Columns that begin with ``recorded_`` always come from the record. ``recorded_prompt`` is the recorded prompt.
    """

    def __init__(self, table: Any) -> None:
        super().__init__(map(_recorded_doc, (row for batch in table.to_batches(1024) for row in batch.to_pylist())))

    @property
    def features(self) -> dict[str, Any]:
        """The columns by name. lm-eval asks whether a text is a column."""
        return dict.fromkeys(self[0]) if self else {}


def _recorded_doc(row: dict[str, Any]) -> dict[str, Any]:
    own = json.loads(row.pop("recorded_doc"))
    row["recorded_prompt"] = row.pop("prompt")
    record = {name: value for name, value in row.items() if name.startswith("recorded_")}
    return {**row, **own, **record}


def _checked(name: str, sha256: str) -> Path:
    path = (Path(__file__).resolve().parent / name).resolve()
    if not path.is_file():
        raise ValueError(f"{path} is missing: this pack is incomplete. Run meta-eval prepare again, or copy it whole.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise ValueError(f"{path} is not the file that was prepared (SHA-256 {digest}). Run meta-eval prepare again.")
    return path
