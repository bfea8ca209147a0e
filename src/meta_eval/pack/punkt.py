"""nltk's Punkt model of English, which IFEval's sentence counts need and nltk does not bring along.

A pack brings it where the machine that prepares has it, so that a GPU node without a network can score. The folder is
laid out as nltk looks for it; the template puts it first on nltk's path.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from meta_eval.notes import log

_FOLDER = PurePosixPath("nltk_data/tokenizers/punkt_tab/english")
_FILES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_NOTICE = """\
The folder tokenizers/punkt_tab/english holds the English Punkt model of NLTK's data distribution (nltk_data, package
punkt_tab; https://github.com/nltk/nltk_data), unchanged, as it lay on the machine that prepared this pack. It was
trained by Jan Strunk and Tibor Kiss on about 469,000 tokens of the Wall Street Journal in the Penn Treebank (LDC); the
method: Kiss and Strunk (2006), Unsupervised Multilingual Sentence Boundary Detection, Computational Linguistics 32:
485-525.

The package names no licence of its own, neither in its README nor in nltk_data's index. NLTK's README says of its data
that they come under the terms given in their READMEs, and that all are redistributable and available for
non-commercial use. NLTK's code is under the Apache License 2.0; none of it is here.

It is here so that IFEval can be scored without a network. It may be deleted where nltk finds its own copy; a pack
without it is one that was edited.
"""


def punkt_files() -> dict[str, bytes]:
    """What a pack brings, by path inside it; nothing where this machine does not have it, which is logged."""
    for place in _places():
        try:
            content = _read(place / "tokenizers")
        except (LookupError, OSError, zipfile.BadZipFile):
            continue
        return {"nltk_data/NOTICE": _NOTICE.encode(), **{str(_FOLDER / name): text for name, text in content.items()}}
    log.warning(
        "the pack brings no punkt_tab of nltk, for this machine has none: IFEval can be scored only where it is "
        "installed. To bring it along: python -m nltk.downloader punkt_tab, then prepare again"
    )
    return {}


def _places() -> Iterator[Path]:
    """Where nltk looks by itself, in its order; asking it would import it, and scipy with it, which takes seconds."""
    yield from (Path(place) for place in os.environ.get("NLTK_DATA", "").split(os.pathsep) if place)
    yield Path("~/nltk_data").expanduser()
    yield from (Path(sys.prefix, *below, "nltk_data") for below in ((), ("share",), ("lib",)))
    yield from (Path(place, "nltk_data") for place in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"))


def _read(tokenizers: Path) -> dict[str, bytes]:
    """The model's files, from a folder or from the archive that nltk reads as well."""
    folder = tokenizers / "punkt_tab" / "english"
    if folder.is_dir():
        return {name: (folder / name).read_bytes() for name in _FILES}
    with zipfile.ZipFile(tokenizers / "punkt_tab.zip") as archive:
        return {name: archive.read(f"punkt_tab/english/{name}") for name in _FILES}
