"""nltk's Punkt model of English, which IFEval needs to count sentences and nltk does not include.

prepare copies it into the pack if this machine has it, for GPU nodes without a network. The folder has the layout that
nltk expects; the template puts it first on nltk's path.
"""

from __future__ import annotations

import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from meta_eval.base.inputs import read_regular
from meta_eval.base.logs import log

# A pack is whole without it: nltk then looks for its own copy.
NLTK_DATA = "nltk_data"

# The column of IFEval's docs that names the instructions to check.
INSTRUCTIONS = "instruction_id_list"

# IFEval instructions whose checkers need it. nltk does not ship it.
NEEDS_PUNKT = frozenset(("change_case:capital_word_frequency", "length_constraints:number_sentences"))

_FOLDER = PurePosixPath(NLTK_DATA, "tokenizers/punkt_tab/english")
_FILES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
_LARGEST = 64 * 2**20  # bytes; the largest of them has 0.2 million
_NOTICE = """\
The folder tokenizers/punkt_tab/english holds the English Punkt model of NLTK's data distribution (nltk_data, package
punkt_tab; https://github.com/nltk/nltk_data), unchanged, as it lay on the machine that prepared this pack. It was
trained by Jan Strunk and Tibor Kiss on about 469,000 tokens of the Wall Street Journal in the Penn Treebank (LDC); the
method: Kiss and Strunk (2006), Unsupervised Multilingual Sentence Boundary Detection, Computational Linguistics 32:
485-525.

Its licence is not settled. The package's README names none. nltk_data's LICENSE-OVERVIEW.md (2025) says that each
package has its own, and counts the Punkt models among those whose licence is unclarified (nltk_data issues 188 and
241); the package's description has said both nothing and "MIT License" (in commit 05094b3). NLTK's README says of its
data that they come under the terms given in their READMEs, and that all are redistributable and available for
non-commercial use. NLTK's code is under the Apache License 2.0; none of it is here.

meta-eval does not distribute the model: this is your own copy, brought along so that IFEval can be scored without a
network. Whoever passes the pack on and is in doubt deletes the folder nltk_data: the pack is whole without it, and nltk
then looks for its own copy on the machine that scores.
"""


def need_punkt(instructions: Iterable[Iterable[str]]) -> bool:
    """Whether a checker of an instruction needs the model.

    Args:
        instructions: The names of the instructions of each doc.
    """
    return any(not NEEDS_PUNKT.isdisjoint(names) for names in instructions)


def read_punkt(*, needed: bool) -> dict[str, bytes]:
    """Read the model's files for a pack, by path inside it; nothing if this machine lacks them.

    Args:
        needed: Whether a doc needs them. Then it is logged that they are lacking.
    """
    for place in _places():
        try:
            content = _read(place / "tokenizers")
        except (LookupError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error):
            continue
        return {
            f"{NLTK_DATA}/NOTICE": _NOTICE.encode(),
            **{str(_FOLDER / name): text for name, text in content.items()},
        }
    if needed:
        log.warning(
            "nltk's punkt_tab is not on this machine, so the pack lacks it: IFEval's docs that count sentences or "
            "capital words can be scored only where it is installed. To include it: python -m nltk.downloader "
            "punkt_tab, then prepare again"
        )
    return {}


def _places() -> Iterator[Path]:
    """nltk's default folders, in its order. Asking nltk would import it and scipy, which takes seconds."""
    yield from (Path(place) for place in os.environ.get("NLTK_DATA", "").split(os.pathsep) if place)
    yield Path(os.path.expanduser("~/nltk_data"))  # noqa: PTH111 (Path.expanduser raises where a user has no home)
    yield from (Path(sys.prefix, *below, "nltk_data") for below in ((), ("share",), ("lib",)))
    yield from (Path(place, "nltk_data") for place in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"))


def _read(tokenizers: Path) -> dict[str, bytes]:
    """The model's files, from a folder or from a zip archive, which nltk also reads."""
    folder = tokenizers / "punkt_tab" / "english"
    if folder.is_dir():
        return {name: read_regular(folder / name, limit=_LARGEST) for name in _FILES}
    with zipfile.ZipFile(tokenizers / "punkt_tab.zip") as archive:
        return {name: archive.read(f"punkt_tab/english/{name}") for name in _FILES}
