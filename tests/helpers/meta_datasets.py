"""An evals dataset without rows, for tests of the plug-in meta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from meta_eval.pack.hub import DataFile
from meta_eval.plugins.meta.catalog.dataset_names import Identity


@dataclass(frozen=True)
class StubDataset:
    """An evals dataset without rows for tests of selection."""

    subsets: tuple[str, ...]
    identity: Identity = Identity("Llama-3.1-8B-Instruct", "3.1", "instruct")
    kind: Literal["hub"] = "hub"
    dataset_id: str = "meta-llama/Llama-3.1-8B-Instruct-evals"
    revision: str = "0" * 40
    warnings: tuple[str, ...] = ()

    def config_name(self, subset: str) -> str:
        return f"{self.dataset_id.rpartition('/')[2]}__{subset}__details"

    def fetch(self, subset: str) -> tuple[DataFile, ...]:
        raise NotImplementedError

    def fetch_metrics(self) -> tuple[DataFile, ...]:
        return ()
