"""Files that prepare and init copy, wherever meta-eval is installed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[2]


def asset_path(name: str) -> Path:
    """A shipped file or folder: inside the installed package, or at the top of a checkout.

    ``meta_template``, ``eval_config.yaml``, ``work_dir.gitignore`` and the pages in ``docs`` stand at the top of the
    repository, where users look for them; the wheel carries them here.
    """
    inside = _HERE / name
    return inside if inside.exists() else _CHECKOUT / name


def read_asset(name: str) -> bytes:
    """The content of a shipped file."""
    return asset_path(name).read_bytes()
