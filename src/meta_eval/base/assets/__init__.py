"""Shipped files that commands copy."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[3]


def asset_path(name: str) -> Path:
    """Return the path of a shipped file or folder, in the installed package or in a checkout.

    In the repository, ``meta_template``, ``eval_config.yaml``, ``work_dir.gitignore`` and ``docs`` are at the top,
    where users look for them. The wheel contains them here.
    """
    inside = _HERE / name
    return inside if inside.exists() else _CHECKOUT / name


def read_asset(name: str) -> bytes:
    """Return the content of a shipped file."""
    return asset_path(name).read_bytes()
