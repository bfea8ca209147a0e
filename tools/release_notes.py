"""Print the changelog of a version, and refuse a tag that does not fit the package.

    python tools/release_notes.py TAG [ROOT]

The release workflow takes its notes from here. ``TAG`` is ``v`` and the version of the package, such as ``v1.0.0``.
``CHANGELOG.md`` needs a section of this version: ``## 1.0.0``, perhaps with a date behind it. Exit code 2 and a message
if the versions differ, or the section is missing or empty.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def read_notes(tag: str, root: Path = REPOSITORY) -> str:
    """Read the notes of a release.

    Args:
        tag: The tag that was pushed.
        root: The checkout.

    Returns:
        The changelog's section of this version, without its heading.

    Raises:
        ValueError: The tag is not the version of the package, or the changelog has nothing about it.
    """
    packaged = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    module = (root / "src" / "meta_eval" / "base" / "version.py").read_text(encoding="utf-8")
    imported = re.search(r'^__version__ = "(.+)"$', module, re.MULTILINE)
    if imported is None or imported[1] != packaged:
        raise ValueError(f"pyproject.toml has version {packaged}, the package another: make them equal")
    citation = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if citation is None or citation[1] != packaged:
        raise ValueError(f"pyproject.toml has version {packaged}, CITATION.cff another: make them equal")
    if tag != f"v{packaged}":
        raise ValueError(f"the tag is {tag!r}, and the package has version {packaged}: push the tag v{packaged}")
    sections = re.split(r"^## +(\S+).*$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    notes = dict(zip(sections[::2], sections[1::2], strict=True)).get(packaged, "").strip()
    if not notes:
        raise ValueError(f'CHANGELOG.md has no text under "## {packaged}": rename "## Unreleased"')
    return notes


def main() -> None:
    if len(sys.argv) not in (2, 3):
        print("usage: python tools/release_notes.py TAG [ROOT]", file=sys.stderr)
        sys.exit(2)
    try:
        print(read_notes(sys.argv[1], *map(Path, sys.argv[2:])))
    except (OSError, ValueError) as error:
        print(f"release: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
