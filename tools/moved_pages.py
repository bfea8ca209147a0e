"""Make addresses of pages that moved lead to where their text is now: ``python tools/moved_pages.py build/site``.

Each old address of the site becomes a small page that sends a browser on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Pages as they are in docs/, without .md.
MOVED = {
    "guides/add_task": "guides/own_tasks",
    "guides/own_questions": "guides/own_tasks",
    "method/code_tasks": "method/grading",
    "method/stopping": "method/uncertainty#stopping-early",
    "plugins/bfcl/bfcl": "guides/harnesses",
    "plugins/boards/leaderboard": "guides/baseline",
    "plugins/engines/local": "guides/engines",
    "plugins/evalplus/evalplus": "guides/harnesses",
    "plugins/evalscope/evalscope": "guides/harnesses",
    "plugins/helm/helm": "guides/harnesses",
    "plugins/inspect_ai/inspect_ai": "guides/harnesses",
    "plugins/load/load_method": "method/same_model",
    "plugins/meta/recipe": "plugins/meta/meta",
    "plugins/meta/rows": "guides/own_tasks",
    "plugins/nemo_evaluator/nemo_evaluator": "guides/harnesses",
    "plugins/nightly/ci": "guides/gate",
    "plugins/promptfoo/promptfoo": "guides/harnesses",
    "plugins/simple_evals/simple_evals": "guides/harnesses",
    "plugins/stand_in/stand_in": "quickstart",
    "plugins/tokens/audit": "plugins/tokens/same_model",
    "plugins/tokens/audit_method": "method/same_model",
    "plugins/tokens/fidelity_method": "method/same_model",
    "plugins/tokens/perplexity": "plugins/tokens/same_model",
    "reference/stability": "reference/files#what-stays-the-same",
}


def write_moved(site: Path) -> None:
    """Write a page for each old address into a built site."""
    for old, new in MOVED.items():
        page, _, anchor = new.partition("#")
        if not (site / page).is_dir():  # of a plug-in that was deleted
            continue
        address = f"{os.path.relpath(page, old)}/{f'#{anchor}' if anchor else ''}"
        (site / old).mkdir(parents=True, exist_ok=True)
        head = '<!doctype html><meta charset="utf-8"><title>Moved</title>'
        go_on = f'<meta http-equiv="refresh" content="0; url={address}">'
        link = f'<p>This page moved: <a href="{address}">read it here</a>.'
        (site / old / "index.html").write_text(f"{head}{go_on}{link}\n", encoding="utf-8")


if __name__ == "__main__":
    write_moved(Path(sys.argv[1]))
