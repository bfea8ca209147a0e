"""Read the only complete public prompt of Meta's HumanEval+ rows with our template.

    git clone https://github.com/linkedin/ControlLLM && git -C ControlLLM checkout 7657b9f
    python tools/grader_validation/human_eval_plus_row.py --data ControlLLM

The repository's task quotes row 0 of Llama-3.1-8B-Instruct-evals, human_eval_plus, in a comment. The row counts as
agreed under two conditions. The prompt starts the answer with a fence and the stub up to its closing quotes. After it a
right answer passes and a wrong answer fails.
"""

from __future__ import annotations

import ast
import json

import template_graders as frame

FILE = "src/controlllm/inference/llm_eval_harness/additional_tasks/humaneval_plus/utils.py"
TEST = "def check(candidate):\n    assert candidate('( ) (( ))') == ['()', '(())']\n"
# The comment has lost three of four spaces of each indentation.
BODY = """
 groups, depth = [""], 0
 for mark in paren_string.replace(" ", ""):
  groups[-1] += mark
  depth += {"(": 1, ")": -1}[mark]
  if not depth:
   groups.append("")
 return groups[:-1]
"""


def main() -> None:
    folder = frame.checkout(__doc__, "linkedin/ControlLLM", "7657b9f")
    lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    (prompt,) = (
        ast.literal_eval(line.partition("e.g. ")[2]) for line in lines if line.strip().startswith('# e.g. "<|')
    )
    joined = frame.row("row 0", ["-"], input_final_prompts=[prompt])
    joined |= {"test": TEST, "entry_point": "separate_paren_groups", "task_id": "HumanEval/1"}
    code = frame.template_module("code/utils.py")
    doc = code._human_eval({**joined, "original_prompt": "", "canonical_solution": ""}, code.CPU_PLUS_S)
    answers = [f"{BODY}{frame.FENCE}", f"{BODY.replace('[:-1]', '')}{frame.FENCE}"]
    task = frame.settings(frame.TEMPLATES / "code" / "human_eval_plus_0shot.yaml")
    passed = [json.loads(text)["passed"] for text in frame.filtered(task, "strict-match", answers, [doc, doc])]
    opened = doc["given"].startswith(f"Here is the completed function:\n{frame.FENCE}python\n") and doc[
        "given"
    ].endswith('"""')
    frame.show({"human_eval_plus_row": frame.counted(int(opened and passed == [1, 0]), 1)})


if __name__ == "__main__":
    main()
