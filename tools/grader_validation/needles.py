"""Compare our recall of a needle with GPT-4's grades of 1,225 answers of Claude 2.1.

    git clone https://github.com/gkamradt/LLMTest_NeedleInAHaystack && git -C LLMTest_NeedleInAHaystack checkout 7b90d28
    python tools/grader_validation/needles.py --data LLMTest_NeedleInAHaystack

One needle is hidden in each text, and the answer is right with the highest grade, 10. The correct response is what the
needle says of the question's subject. Second runs, whose answers are mostly the same, are left out. No answers with
verdicts to several needles are public.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from template_graders import checkout, row, show, tallied, template_module

RESULTS = "original_results/Anthropic_Original_Results"
NEEDLE = "eat a sandwich and sit in Dolores Park on a sunny day"


def judged(path: Path) -> tuple[bool, bool, str]:
    """Return our verdict, GPT-4's, and why they differ if they do."""
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    if NEEDLE not in result["needle"]:
        raise SystemExit(f"{path.name} hides another needle")
    doc = template_module("_common/spans.py").make_doc(row(path.name, [NEEDLE], "nih.multi_needle"))
    found = template_module("long_context/utils.py").needles(doc, [result["model_response"]])["recall"] == 1
    why = (
        "the answer quotes the needle, and mostly says that this is no answer (ours counts it as right)"
        if found
        else "the needle in other words (theirs counts it as right)"
    )
    return found, result["score"] == 10, why


def main() -> None:
    folder = checkout(__doc__, "gkamradt/LLMTest_NeedleInAHaystack", "7b90d28")
    show({"needle_claude": tallied(map(judged, sorted((folder / RESULTS).glob("*_results.json"))))})


if __name__ == "__main__":
    main()
