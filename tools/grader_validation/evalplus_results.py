"""Compare our HumanEval+ and MBPP+ verdicts with those that EvalPlus gave to models' answers.

    git clone https://github.com/mrthinger/llama3-exp FOLDER/llama3-exp                          # a6ce1be
    git clone https://github.com/AIGCode-net/aigcodegeek_evalplus FOLDER/aigcodegeek_evalplus    # e2c0dc0
    git clone https://github.com/evalplus/humanevalplus_release FOLDER/humanevalplus_release     # git checkout 68cd26d
    git clone https://github.com/linkedin/ControlLLM FOLDER/ControlLLM                           # 7657b9f
    python tools/grader_validation/evalplus_results.py --data FOLDER

The first two have whole programs with the statuses that EvalPlus recorded: of Llama 3 8B and 70B Instruct, and of
AIGCodeGeek-DS-6.7B. The third has HumanEval+ v0.1.9, whose checksum stands in the results, and the same in the original
format, as in evalplus/humanevalplus. There it has a single test, which passes if both statuses are "pass".

AIGCodeGeek continued the stub, so its prompt begins the answer with the stub, as Meta's does. Llama 3 wrote whole
functions. Here its prompt begins the answer with the fence alone, as Meta's prompts of MBPP do.

The fourth has the sanitized MBPP, from which evalplus/mbppplus takes its ``test_list``. pass@1 counts these tests, so
it is compared with the status of the base tests. The results are of MBPP+ v0.1.0. Its 21 problems that v0.2.0 removed
are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import template_graders as frame

CHECKOUTS = {
    "llama3-exp": "a6ce1be",
    "aigcodegeek_evalplus": "e2c0dc0",
    "humanevalplus_release": "68cd26d",
    "ControlLLM": "7657b9f",
}
PROBLEMS = "ControlLLM/src/controlllm/inference/llm_eval_harness/additional_tasks"
# Why EvalPlus' verdict is another one. GUARD was seen again with EvalPlus 0.2.2 and numpy 1.26.4: the same inputs fail
# as in the results. They pass if numpy.testing is loaded beforehand.
GUARD = "EvalPlus 0.2 fails floats that differ in the last digits, since its guard keeps numpy.testing from loading"
SLOW = "EvalPlus ended the slowest input by its time limit, within ours it is right"
SETS = "EvalPlus 0.2 compares a list with a tuple or a set, MBPP's asserts compare two sets"
ADDED = "fails only an input that EvalPlus added to the base tests"
OMITTED = "fails an assert of MBPP that EvalPlus replaced or left out"
FIRST = "fails an assert of MBPP and of v0.2.0 that MBPP+ v0.1.0 let pass"
REASONS = {  # by problem and our verdict
    ("HumanEval/4", True): GUARD,
    ("HumanEval/21", True): GUARD,
    ("HumanEval/39", True): SLOW,
    ("Mbpp/2", True): SETS,
    ("Mbpp/140", True): SETS,
    ("Mbpp/312", True): GUARD,
    ("Mbpp/780", True): ADDED,
    ("Mbpp/223", False): OMITTED,
    ("Mbpp/612", False): OMITTED,
    ("Mbpp/87", False): FIRST,
}
AIGCODE = "aigcode--AIGCodeGeek-DS-6.7B_temp_0.0"


def main() -> None:
    folder = frame.arguments(__doc__, "folder of the checkouts").parse_args().data
    for name, commit in CHECKOUTS.items():
        frame.check_commit(folder / name, commit)
    release = folder / "humanevalplus_release"
    version = hashlib.md5(gzip.decompress((release / "HumanEvalPlus.jsonl.gz").read_bytes())).hexdigest()
    with gzip.open(release / "HumanEvalPlus-OriginFmt.jsonl.gz", "rt", encoding="utf-8") as file:
        problems = {problem["task_id"]: problem for problem in map(json.loads, file)}
    llama = [
        json.loads(path.read_bytes())
        for path in sorted((folder / "llama3-exp" / "results").glob("*-instruct-base/samples_eval_results.json"))
    ]
    aigcode = packed(folder, "humaneval")
    if any(result["hash"] != version for result in (*llama, aigcode)):
        raise SystemExit("results of another version of HumanEval+")
    frame.show(
        {
            "human_eval_plus_aigcode": human_eval_plus([aigcode], problems, begun=True),
            "human_eval_plus_llama3": human_eval_plus(llama, problems, begun=False),
            "mbpp_plus_aigcode": mbpp_plus(packed(folder, "mbpp"), folder / PROBLEMS),
        }
    )


def packed(folder: Path, name: str) -> dict[str, Any]:
    """Read EvalPlus' results from an archive of the second repository."""
    with tarfile.open(folder / "aigcodegeek_evalplus" / "generations" / f"{name}.tar.gz") as archive:
        file = archive.extractfile(f"{name}/{AIGCODE}/eval_results.json")
        assert file
        result: dict[str, Any] = json.load(file)
        return result


def human_eval_plus(
    results: Sequence[Mapping[str, Any]], problems: Mapping[str, dict[str, Any]], *, begun: bool
) -> dict[str, Any]:
    """Return the counts of all answers. ``begun`` says whether the prompt gives the stub, which they repeat."""
    code = frame.template_module("code/utils.py")
    docs, outputs, theirs = [], [], []
    for answer in answers_of(results):
        problem = problems[answer["task_id"]]
        program, stub = answer["solution"].lstrip("\n"), problem["prompt"].strip() if begun else ""
        assert program.startswith(stub)
        prompt = f"{frame.ASSISTANT}Here is the completed function:\n{frame.FENCE}python\n{stub}"
        joined = frame.row(problem["prompt"], ["-"], input_final_prompts=[prompt])
        joined |= {**problem, "original_prompt": problem["prompt"]}
        docs.append(code._human_eval(joined, code.CPU_PLUS_S))
        outputs.append(f"{program[len(stub) :]}\n{frame.FENCE}")
        theirs.append(answer["base_status"] == answer["plus_status"] == "pass")
    return judged("human_eval_plus_0shot", docs, outputs, theirs)


def mbpp_plus(result: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the counts of all answers to problems of v0.2.0, by the base tests."""
    code = frame.template_module("code/utils.py")
    kept = {problem["task_id"] for problem in frame.lines(folder / "mbpp_plus" / "test.jsonl")}
    sanitized = {f"Mbpp/{problem['task_id']}": problem for problem in frame.lines(folder / "mbpp" / "test.jsonl")}
    docs, outputs, theirs = [], [], []
    for answer in answers_of([result]):
        if answer["task_id"] in kept:
            problem = sanitized[answer["task_id"]]
            prompt = f"{frame.ASSISTANT}{frame.FENCE}python\n"
            joined = frame.row(problem["prompt"], ["-"], input_final_prompts=[prompt])
            joined |= {**problem, "task_id": answer["task_id"], "test_setup": "\n".join(problem["test_imports"])}
            docs.append(code._mbpp(joined, [], code.CPU_PLUS_S))
            outputs.append(f"{answer['solution']}\n{frame.FENCE}")
            theirs.append(answer["base_status"] == "pass")
    return judged("mbpp_plus_0shot", docs, outputs, theirs)


def answers_of(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [answer for result in results for answers in result["eval"].values() for answer in answers]


def judged(task: str, docs: list[dict[str, Any]], outputs: list[str], theirs: list[bool]) -> dict[str, Any]:
    """Return the counts by the primary metric."""
    settings = frame.settings(frame.TEMPLATES / "code" / f"{task}.yaml")
    ours = [json.loads(text) for text in frame.filtered(settings, "strict-match", outputs, docs)]
    return frame.compared(
        [our["passed"] >= 1 for our in ours],
        theirs,
        lambda n: REASONS.get((docs[n]["task_id"], ours[n]["passed"] >= 1), "not looked into"),
    )


if __name__ == "__main__":
    main()
