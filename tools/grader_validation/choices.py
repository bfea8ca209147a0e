"""Compare our verdicts on likelihoods of choices with MMLU's own script and lm-eval's, on likelihoods of real models.

    pip install lm-eval==0.4.13
    git clone https://github.com/hendrycks/test FOLDER/test                         # 4450500
    git clone https://github.com/amoghsingh130/flipeval FOLDER/flipeval             # 241fc5d
    git clone https://github.com/spektre-labs/creation-os FOLDER/creation-os        # a2cf520
    python tools/grader_validation/choices.py --data FOLDER

flipeval has log-likelihoods of MMLU's four letters by Qwen2.5-1.5B-Instruct: two runs of lm-eval and four of its own.
creation-os has those by BitNet b1.58 2B, and those of HellaSwag's endings, which differ in length. The prompts are not
Meta's. MMLU's script, evaluate.py, asks OpenAI for log-likelihoods. Here its function ``eval`` gets the recorded ones.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from template_graders import TEMPLATES, arguments, check_commit, compared, lines, module, row, settings, show

COMMITS = {"test": "4450500", "flipeval": "241fc5d", "creation-os": "a2cf520"}
RUNS = (
    "kaggle_mmlu_reference_run",
    "kaggle_qwen25_1p5b_fp16_chat_validation",
    "results/pilot_outputs_20260711T000427Z",
)
OF_LM_EVAL = re.compile(r"results/lm_eval_mmlu_\dshot/[^/]+/samples_mmlu_\w+_[-\dT.]+\.jsonl")
OF_FLIPEVAL = re.compile(r"(?:results/)?kaggle_qwen25_\w+/\w+\.mmlu\.jsonl")
BITNET = "benchmarks/v111/results/lm_eval"
ENDING = re.compile(r"\n  [A-D]\) (.*)")


@dataclass(frozen=True)
class Scored:
    """The log-likelihoods of a question's choices, and the choices where they are no letters."""

    likelihoods: list[float]
    gold: int
    recorded: bool  # the verdict of lm-eval or of the repository
    by_lm_eval: bool
    choices: tuple[str, ...] = tuple("ABCD")


def main() -> None:
    folder = arguments(__doc__, "folder of the three checkouts").parse_args().data
    for name, commit in COMMITS.items():
        check_commit(folder / name, commit)
    letters = [*qwen(folder / "flipeval"), *bitnet(folder / "creation-os")]
    samples = [scored for scored in letters if scored.by_lm_eval]
    show(
        {
            "mmlu_likelihoods": compared(
                ours("mmlu/mmlu_5shot_pretrain.yaml", "acc", letters), official(folder, letters)
            ),
            "mmlu_lm_eval_samples": compared(
                ours("mmlu/mmlu_5shot_pretrain.yaml", "acc", samples), [scored.recorded for scored in samples]
            ),
            "boolq_likelihoods": per_character(list(endings(folder / "creation-os"))),
        }
    )


def qwen(folder: Path) -> Iterator[Scored]:
    """Read the likelihoods of Qwen2.5-1.5B-Instruct."""
    for run in RUNS:
        with tarfile.open(folder / f"{run}.tar.gz") as archive:
            for member in archive:
                file = archive.extractfile(member)
                if file and OF_LM_EVAL.fullmatch(member.name):
                    yield from map(sample, map(json.loads, file))
                elif file and OF_FLIPEVAL.fullmatch(member.name):
                    for line in map(json.loads, file):
                        scores = [line["scores"][letter] for letter in "ABCD"]
                        yield Scored(scores, "ABCD".index(line["gold"]), line["correct"], by_lm_eval=False)


def bitnet(folder: Path) -> Iterator[Scored]:
    """Read the likelihoods of BitNet b1.58 2B. A subject without samples of lm-eval has some made of its sidecar."""
    for subject in sorted((folder / BITNET).glob("mmlu_*")):
        files = sorted(subject.glob("*/samples_*.jsonl"), key=lambda file: (is_made(file), file.name))
        for line in lines(files[0]):
            yield sample(line, by_lm_eval=not is_made(files[0]))


def is_made(file: Path) -> bool:
    return file.parent.name == "synth_from_sidecar"


def sample(line: dict[str, Any], *, by_lm_eval: bool = True) -> Scored:
    """Read a line of a sample file of lm-eval."""
    likelihoods = [float(likelihood) for likelihood, _ in line["filtered_resps"]]
    return Scored(likelihoods, int(line["target"]), line["acc"] == 1, by_lm_eval)


def endings(folder: Path) -> Iterator[Scored]:
    """Read the likelihoods of HellaSwag's endings. The texts are of the first 500 questions, by their number."""
    import lm_eval.tasks

    clean = module(Path(lm_eval.tasks.__file__).parent / "hellaswag" / "utils.py").preprocess
    texts = lines(folder / "benchmarks" / "suite" / "data" / "hellaswag_rows.jsonl")
    (file,) = (folder / BITNET / "hellaswag").glob("*/samples_*.jsonl")
    for line in lines(file):
        if line["doc_id"] < len(texts):
            question = texts[line["doc_id"]]
            scored, choices = sample(line, by_lm_eval=False), ENDING.findall(question["prompt"])
            if len(choices) != len(scored.likelihoods) or "ABCD"[scored.gold] != question["gold"]:
                raise SystemExit(f"question {line['doc_id']} has other choices than its likelihoods")
            yield Scored(scored.likelihoods, scored.gold, scored.recorded, False, tuple(map(clean, choices)))


def ours(file: str, metric: str, answered: list[Scored]) -> list[bool]:
    """Return our verdicts. The rows are made like Meta's: a whole prompt per choice, and the completions that count."""
    task = settings(TEMPLATES / file)
    rows = []
    for number, scored in enumerate(answered):
        completions = [f"Answer: {text}" if len(text) == 1 else text for text in scored.choices]
        rows.append(
            row(
                f"question {number}",
                [completions[scored.gold]],
                "mmlu",
                input_final_prompts=[f"Question {number}\n{completion}" for completion in completions],
                output_choice_completions=completions,
            )
        )
    return [
        task["process_results"](doc, [(likelihood, False) for likelihood in scored.likelihoods])[metric] == 1
        for doc, scored in zip(task["process_docs"](rows), answered, strict=True)
    ]


def official(folder: Path, answered: list[Scored]) -> list[bool]:
    """Return the verdicts of MMLU's evaluate.py."""
    import pandas

    waiting = iter(answered)

    def create(**_: Any) -> dict[str, Any]:
        likelihoods = next(waiting).likelihoods
        top = {f" {letter}": likelihood for letter, likelihood in zip("ABCD", likelihoods, strict=True)}
        return {"choices": [{"logprobs": {"top_logprobs": [top]}}]}

    sys.modules["openai"] = SimpleNamespace(Completion=SimpleNamespace(create=create))  # type: ignore[assignment]
    sys.modules["crop"] = SimpleNamespace(crop=lambda prompt: prompt)  # type: ignore[assignment]
    script: ModuleType = module(folder / "test" / "evaluate.py")
    questions = pandas.DataFrame([["question", *"ABCD", "ABCD"[scored.gold]] for scored in answered])
    script.print = lambda *_: None  # type: ignore[attr-defined]
    cors, _, _ = script.eval(Namespace(ntrain=0), "all", "recorded", questions[:0], questions)
    return [bool(cor) for cor in cors]


def per_character(answered: list[Scored]) -> dict[str, Any]:
    """Compare acc_char with lm-eval's acc_norm."""
    from lm_eval.api.task import MultipleChoiceTask

    theirs = []
    for scored in answered:
        doc = {"choices": scored.choices, "gold": scored.gold}
        results = [(likelihood, False) for likelihood in scored.likelihoods]
        theirs.append(MultipleChoiceTask.process_results(None, doc, results)["acc_norm"] == 1)
    verdicts = ours("boolq/boolq_0shot.yaml", "acc_char", answered)
    other = sum(a != b for a, b in zip(verdicts, ours("boolq/boolq_0shot.yaml", "acc", answered), strict=True))
    note = (
        "Likelihoods of HellaSwag's endings: BoolQ's are not public. "
        f"On {other} the plain likelihood gives another verdict."
    )
    return {**compared(verdicts, theirs), "note": note}


if __name__ == "__main__":
    main()
