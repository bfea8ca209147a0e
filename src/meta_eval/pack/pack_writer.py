"""Writing a pack whole or not at all, and over nothing that prepare did not write (`boundary/ownership.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from meta_eval.boundary.ownership import check_folder, replace_folder
from meta_eval.pack.manifest import MANIFEST, Manifest

_KIND = "pack"


def check_target(work_dir: Path) -> None:
    """Refuse a work_dir that prepare will not write into.

    Raises:
        OutputError: It is no folder, holds files but no pack, or a manifest that was edited.
    """
    check_folder(work_dir, _KIND, names=[MANIFEST], where=f"work_dir {work_dir}")


def write_pack(work_dir: Path, files: Mapping[str, bytes], manifest: Manifest) -> None:
    """Write a pack, and replace the pack that is there.

    Args:
        work_dir: The folder; it is made if need be.
        files: Content by path inside the pack, the manifest apart.
        manifest: Of the pack.

    Raises:
        OutputError: Something that prepare did not write is in the way, another command does not end, or the disk
            refuses.
    """
    with replace_folder(work_dir, _KIND, where=f"work_dir {work_dir}") as new:
        for name, content in files.items():
            new.write(name, content)
        new.write(MANIFEST, manifest.to_json().encode())
