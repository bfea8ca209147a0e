"""Where things lie in the repository, and how long the long tests take."""

import os
from pathlib import Path

HELPERS = Path(__file__).resolve().parent
REPOSITORY = HELPERS.parents[1]
TEMPLATES = REPOSITORY / "meta_template"
GOLDEN = REPOSITORY / "tests" / "golden"

# How often the writing of a pack is killed; .ci/run asks for a hundred.
KILLS = int(os.environ.get("META_EVAL_KILLS", "15"))
