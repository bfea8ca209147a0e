"""Writes a pack whole or not at all. It replaces only what prepare wrote (`boundary/ownership.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from meta_eval.base.ownership import check_folder, replace_folder
from meta_eval.pack.manifest import MANIFEST, Manifest

_KIND = "pack"


def check_target(work_dir: Path) -> None:
    """Refuse a work_dir that prepare will not write into.

    Raises:
        OutputError: It is not a folder, has files but no pack, or its manifest was edited.
    """
    check_folder(work_dir, _KIND, names=[MANIFEST], where=f"work_dir {work_dir}")


def write_pack(work_dir: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    """Write a pack, and replace the pack that is there.

    Args:
        work_dir: The folder; it is made if need be.
        files: Content by path inside the pack, without the manifest.
        manifest: Of the pack.

    Raises:
        OutputError: A file that prepare did not write is in the way, another command keeps writing, or the disk fails.
    """
    with replace_folder(work_dir, _KIND, where=f"work_dir {work_dir}") as new:
        for name, content in files.items():
            new.write(name, content)
        new.write(MANIFEST, manifest.to_json().encode())
