"""Reads each original dataset of a pack once: the configured dataset, or its fallback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_eval.plugins.meta.joins.join import Join, Original, OriginalRows
from meta_eval.plugins.meta.source.dataset import OriginalDataset
from meta_eval.plugins.meta.source.lookup import open_original
from meta_eval.plugins.meta.source.rows import read_evals_rows
from meta_eval.sockets import SourceError, log


@dataclass(slots=True)
class Originals:
    """Reads originals on demand."""

    overrides: Mapping[str, Original] = field(default_factory=dict)
    """Source of each join's original. Other joins use their defaults."""

    of_sample: bool = False
    """Whether the sample's originals replace the defaults."""

    read: dict[str, OriginalRows] = field(default_factory=dict)
    """What was read so far, by join."""

    def rows(self, join: Join) -> OriginalRows:
        """Read the rows for a join.

        Raises:
            ConfigError: The name is neither an existing path nor a hub id.
            SourceError: Neither the original nor its fallback is available, or a file is damaged.
        """
        if join.name not in self.read:
            original, fallback = self._open(join)
            files = original.fetch(join.split)
            rows = read_evals_rows(files, dataset_id=original.dataset_id, subset=join.split)
            self.read[join.name] = OriginalRows(rows, original.dataset_id, original.revision, fallback)
        return self.read[join.name]

    def _open(self, join: Join) -> tuple[OriginalDataset, bool]:
        original = self.overrides.get(join.name, join.original)
        if self.of_sample and original == join.original:
            from meta_eval.plugins.meta.source import sample

            return sample.open_sample_original(join.name), False
        where = f"originals.{join.name}"
        try:
            return open_original(original.id, revision=original.revision, where=where), False
        except SourceError as error:
            if original.fallback is None:
                raise
            log.warning(f"{error}. Using the fallback {original.fallback}")
            return open_original(original.fallback, revision=None, where=where), True
