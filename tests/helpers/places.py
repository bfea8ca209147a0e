"""Where things lie in the repository, and how long the long tests take."""

import os
from pathlib import Path

HELPERS = Path(__file__).resolve().parent
REPOSITORY = HELPERS.parents[1]
TEMPLATES = REPOSITORY / "meta_template"
GOLDEN = REPOSITORY / "tests" / "golden"

# .ci/run asks for all: a pack's writing is killed a hundred times, and each trick meets every version of Landlock.
THOROUGH = os.environ.get("META_EVAL_THOROUGH") == "1"
KILLS = 100 if THOROUGH else 8
