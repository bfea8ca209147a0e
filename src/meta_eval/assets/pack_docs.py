"""Loads the docs of one task of this pack; prepare puts a copy beside every task's YAML.

lm-eval calls ``load`` with the task's ``dataset_kwargs`` and ``metadata``. The file is found from where this module
lies, so that the pack works in any place and from any working directory.

The docs of a recorded run are lm-eval's own, of any shape: they stand there as text, and become what they were.
"""

import hashlib
import json
from pathlib import Path
from typing import Any


def load(docs_file: str, sha256: str, beside: dict[str, str] | None = None, **_: Any) -> Any:
    """The docs as ``datasets.DatasetDict({"latest": …})``, checked against their recorded SHA-256.

    Args:
        docs_file: The parquet file, relative to this module's folder.
        sha256: Hex digest of the file.
        beside: What scoring reads besides, relative to this module's folder: each file with its hex digest.
        _: The task's metadata, which lm-eval passes along.

    Raises:
        ValueError: A file is missing or is not the one that prepare wrote.
    """
    import datasets
    import pyarrow
    import pyarrow.parquet

    for name, digest in (beside or {}).items():
        _checked(name, digest)
    with pyarrow.parquet.ParquetFile(_checked(docs_file, sha256)) as parquet:  # with half of read_table's memory
        docs = pyarrow.Table.from_batches(parquet.iter_batches(1024), parquet.schema_arrow)
    if "recorded_doc" in docs.column_names:
        return {"latest": RecordedDocs(docs)}
    # Without a fingerprint of its own a dataset pickles all that it holds to make one.
    return datasets.DatasetDict({"latest": datasets.Dataset(docs, fingerprint=sha256[:16])})


class RecordedDocs(list[dict[str, Any]]):
    """Docs as their own task made them, each with what was recorded of it; what it has itself is not replaced.

    The columns whose names begin with ``recorded_`` are always the record's, and ``recorded_prompt`` is what was asked.
    """

    def __init__(self, table: Any) -> None:
        super().__init__(map(_recorded_doc, (row for batch in table.to_batches(1024) for row in batch.to_pylist())))

    @property
    def features(self) -> dict[str, Any]:
        """The columns, by name: lm-eval asks whether a text is one of them."""
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
