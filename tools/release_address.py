"""Write the repository's address into a release: into `[project.urls]`, and into README's links.

    python tools/release_address.py ADDRESS [ROOT]

``ADDRESS`` is that of the repository, such as ``https://github.com/OWNER/NAME``. The release workflow takes it from
where the tag was pushed. So no address stands in the checkout, and a fork's packages name the fork. A registry shows
``README.md`` elsewhere: its links to files, and its pictures, become those of this version. Exit code 2 and a message
where the address is none, or was written before.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Two names behind a host, as on GitHub.
_ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+")
_LINK = re.compile(r"(!?)\[((?:[^][]|\n)*)\]\((?!https?:|#|mailto:)([^()\s]+)\)")


def write_address(address: str, root: Path = REPOSITORY) -> None:
    """Write the address into ``pyproject.toml`` and ``README.md``.

    Args:
        address: Of the repository.
        root: The checkout, which is changed.

    Raises:
        ValueError: The address is not of this form, or the package names one already.
    """
    if not _ADDRESS.fullmatch(address):
        raise ValueError(f"the address is {address!r}: give one such as https://github.com/OWNER/NAME")
    file = root / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    if "Repository" in project["urls"]:
        raise ValueError("pyproject.toml names a repository already: take a fresh checkout")
    tag = f"v{project['version']}"
    urls = {
        "Repository": address,
        "Documentation": f"{address}/blob/{tag}/docs/index.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    file.write_text(text.replace("[project.urls]\n", f"[project.urls]\n{lines}", 1), encoding="utf-8")

    def absolute(found: re.Match[str]) -> str:
        shown, words, path = found.groups()
        return f"{shown}[{words}]({address}/{'raw' if shown else 'blob'}/{tag}/{path})"

    readme = root / "README.md"
    readme.write_text(_LINK.sub(absolute, readme.read_text(encoding="utf-8")), encoding="utf-8")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        print("usage: python tools/release_address.py ADDRESS [ROOT]", file=sys.stderr)
        sys.exit(2)
    try:
        write_address(sys.argv[1], *map(Path, sys.argv[2:]))
    except (OSError, ValueError) as error:
        print(f"release: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
