"""Paths in the repository, and the length of the long tests."""

import os
from pathlib import Path

HELPERS = Path(__file__).resolve().parent
REPOSITORY = HELPERS.parents[1]
TEMPLATES = REPOSITORY / "meta_template"
GOLDEN = REPOSITORY / "tests" / "golden"

# .ci/run sets it: the writing of a pack is killed a hundred times, and each trick runs under every version of Landlock.
THOROUGH = os.environ.get("META_EVAL_THOROUGH") == "1"
KILLS = 40 if THOROUGH else 8
