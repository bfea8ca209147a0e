"""What a plug-in reads of the recorded answers of a pack, through the socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_record import TEXTS, config_of, record_run
from packs import Doc, edit_docs, prepare
from runs import entry, manifest

from meta_eval.ask.recorded_answers import Recordings
from meta_eval.pack.manifest import read_manifest


def test_the_clusters_of_a_task_are_named_by_the_docs_that_share_one(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pack = prepare(tmp_path / "work_dir", **config_of(record_run(tmp_path_factory)))

    def share(docs: list[Doc]) -> None:
        for number, doc in enumerate(docs):
            doc["cluster"] = "a passage" if number in (2, 5) else None

    edit_docs(pack, TEXTS, share)
    assert Recordings(pack, read_manifest(pack)).read_clusters(TEXTS) == {2: "a passage", 5: "a passage"}


def test_a_pack_knows_no_cluster_of_docs_that_stay_on_the_hub(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path, manifest(meta_some=entry(3, docs_file=None)))
    assert recordings.read_clusters("meta_some") == {}
    assert recordings.read_task("meta_some") == ([], [])
