"""Compare our verdicts on code-davinci-002's answers to BIG-Bench Hard with the authors' accuracies.

    git clone https://github.com/suzgunmirac/BIG-Bench-Hard && git -C BIG-Bench-Hard checkout 9ee07bd
    python tools/grader_validation/bbh.py --data BIG-Bench-Hard

The repository has an accuracy for each of the 27 subtasks but no verdicts. If the numbers of right answers in a subtask
differ, that many answers count as disagreed. All others count as agreed.
"""

from __future__ import annotations

import json

from template_graders import checkout, counted, extracted, percent, row, show, template_module

YAML = "bbh/bbh_3shot_cot.yaml"


def main() -> None:
    folder = checkout(__doc__, "suzgunmirac/BIG-Bench-Hard", "9ee07bd")
    shared, bbh = template_module("_common/rows.py"), template_module("bbh/utils.py")
    ours: list[float] = []
    theirs: list[float] = []
    recipe: list[float] = []
    count = apart = 0
    for file in sorted((folder / "code-davinci-002-outputs" / "code-davinci-002-cot").glob("*-255000.json")):
        outputs = json.loads(file.read_text(encoding="utf-8"))["outputs"]
        subtask = file.name.partition("_few_shot")[0]
        official = json.loads(file.with_name(f"{file.stem}_eval_metrics.jsonl").read_text(encoding="utf-8"))["accuracy"]
        docs = [shared.make_doc(row(output["input"], [output["target"]], f"bbh.{subtask}")) for output in outputs]
        scores = {
            name: [
                bbh.process_results(doc, [extracted(YAML, name, output["prediction"])])
                for doc, output in zip(docs, outputs, strict=True)
            ]
            for name in ("official", "strict-match")
        }
        right = sum(score["em"] for score in scores["official"])
        apart += round(abs(right - official * len(outputs) / 100))
        count += len(outputs)
        ours.append(right / len(outputs))
        theirs.append(official / 100)
        recipe.append(sum(score["exact_match"] for score in scores["strict-match"]) / len(outputs))
    measured = counted(
        count - apart,
        count,
        ours=percent(ours),
        theirs=percent(theirs),
        why="right answers too many or too few in a subtask",
    )
    measured["note"] = (
        "The authors keep accuracies, no verdicts: agreed is that each subtask has their number of right answers. The "
        f"recipe's exact_match,strict-match gives {percent(recipe)} on the same answers."
    )
    show({"bbh_code_davinci": measured})


if __name__ == "__main__":
    main()
