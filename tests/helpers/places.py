"""Where things lie in the repository."""

from pathlib import Path

HELPERS = Path(__file__).resolve().parent
REPOSITORY = HELPERS.parents[1]
TEMPLATES = REPOSITORY / "meta_template"
GOLDEN = REPOSITORY / "tests" / "golden"
