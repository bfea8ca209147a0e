"""Compare our scores for ZeroSCROLLS and OpenRewrite with other implementations on answers of real models.

    git clone https://github.com/nyu-mll/SQuALITY FOLDER/SQuALITY                         # dc08d4f
    git clone https://github.com/OpenLMLab/LEval FOLDER/LEval                             # cd34b05
    git clone https://github.com/allenai/qasper-led-baseline FOLDER/qasper-led-baseline   # afd0fb9
    git clone https://github.com/feralvam/easse FOLDER/easse                              # 6a4352e
    git clone https://github.com/huggingface/evaluate FOLDER/evaluate                     # a7dd338
    pip install rouge-score evaluate nltk
    python tools/grader_validation/scrolls_answers.py --data FOLDER

ZeroSCROLLS has no public scorer. Its three benchmarks in Meta's subset have: SQuALITY's ROUGE over several references
and Qasper's F1 over words. QuALITY has none, so its letters are compared with those that L-Eval reads. The answers are
the model summaries of SQuALITY's human evaluation and L-Eval's recorded predictions. L-Eval's scientific_qa is Qasper.

No answers to OpenRewriteEval are public. Its ROUGE-L is compared on sentences that systems simplified, with the ten
references of ASSET.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from template_graders import arguments, check_commit, compared, lines, measured, module, row, show, template_module

COMMITS = {
    "SQuALITY": "dc08d4f",
    "LEval": "cd34b05",
    "qasper-led-baseline": "afd0fb9",
    "easse": "6a4352e",
    "evaluate": "a7dd338",
}
ROUGE = ("rougeL", "rouge1", "rouge2")
LETTERED = re.compile(r"^ ?\(([A-D])\) *(.*?)\s*$", re.MULTILINE)


def squality(folder: Path) -> dict[str, Any]:
    """Compare each ROUGE of the summaries of two models, with four references each."""
    stories = lines(folder / "SQuALITY" / "data" / "v1-3" / "txt" / "test.jsonl")
    references = {
        (str(story["metadata"]["passage_id"]), str(number)): [answer["response_text"] for answer in item["responses"]]
        for story in stories
        for number, item in enumerate(story["questions"])
    }
    cases = [
        (item[model]["response"], references[answers["passage-id"], number])
        for answers in lines(folder / "SQuALITY" / "data" / "human-eval" / "all-responses.jsonl")
        for number, item in answers["questions"].items()
        for model in ("bart", "bart-dpr")
    ]
    official = multi_rouge(folder)._compute(
        None, [output for output, _ in cases], [golds for _, golds in cases], list(ROUGE), use_agregator=False
    )
    long = template_module("long_context/utils.py")
    pairs = []
    for number, (output, golds) in enumerate(cases):
        doc = long.make_doc(row(str(number), golds, "zero_scrolls.squality"))
        scores = long.scrolls(doc, [output])
        rouge1, rouge2, rouge_l = scores["rouge"]
        if scores["score"] != rouge_l:
            raise SystemExit("a summary's score is not its ROUGE-L")
        pairs.append(((rouge_l, rouge1, rouge2), tuple(official[name][number].fmeasure for name in ROUGE)))
    return measured(pairs)


def multi_rouge(folder: Path) -> Any:
    """Return the class of SQuALITY's script."""
    # Its decorator only adds texts to the class.
    decorators = SimpleNamespace(add_start_docstrings=lambda *_: lambda made: made)
    datasets = stand_in("datasets", Metric=object, utils=SimpleNamespace(file_utils=decorators))
    return imported(folder / "SQuALITY" / "utils" / "metrics" / "multi_rouge" / "multi_rouge.py", datasets).Rouge


def leval(folder: Path) -> ModuleType:
    """Import L-Eval's script without what its letters do not need."""
    sys.path.insert(0, str(folder / "LEval" / "Evaluation"))
    script = imported(
        folder / "LEval" / "Evaluation" / "auto_eval.py",
        stand_in("datasets", Metric=object),
        stand_in("rouge", compute_rouge=None, postprocess_text=None),
        stand_in("Baselines"),
        stand_in("Baselines.LEval_config"),
    )
    script.args = SimpleNamespace(pred_file="quality")  # type: ignore[attr-defined]
    return script


def stand_in(name: str, **members: Any) -> ModuleType:
    """Make a module for an import of which only these members are used. Newer versions of datasets have no Metric."""
    made = ModuleType(name)
    vars(made).update(members)
    return made


def imported(path: Path, *instead: ModuleType) -> ModuleType:
    """Import a file while these modules stand in for the installed ones."""
    kept = {made.__name__: sys.modules.get(made.__name__) for made in instead}
    sys.modules |= {made.__name__: made for made in instead}
    try:
        return module(path)
    finally:
        for name, was in kept.items():
            del sys.modules[name]
            if was is not None:
                sys.modules[name] = was


def predictions(folder: Path, kind: str, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield question, gold and answer of L-Eval's predictions."""
    for file in sorted((folder / "LEval" / "Predictions" / kind).glob(f"*/{name}.pred.jsonl")):
        for line in lines(file):
            yield line["query"], line["gt"], next(text for key, text in line.items() if key.endswith("_pred"))


def qasper(folder: Path) -> dict[str, Any]:
    official = module(folder / "qasper-led-baseline" / "scripts" / "evaluator.py")
    long = template_module("long_context/utils.py")
    pairs = []
    for question, gold, answer in predictions(folder, "ngram_eval", "scientific_qa"):
        doc = long.make_doc(row(question, [gold], "zero_scrolls.qasper"))
        pairs.append(((long.scrolls(doc, [answer])["f1"],), (float(official.token_f1_score(answer, gold)),)))
    return measured(pairs)


def quality(folder: Path) -> dict[str, Any]:
    """Compare our verdicts on letters with L-Eval's."""
    official = leval(folder)
    long = template_module("long_context/utils.py")
    ours, theirs = [], []
    for question, gold, answer in predictions(folder, "exam_eval", "quality"):
        letter = official.process_gt_mc(gold)
        given = {
            **row(question, [letter], "zero_scrolls.quality"),
            "input_choice_list": dict(LETTERED.findall(question)),
        }
        ours.append(long.scrolls(long.make_doc(given), [answer])["score"] == 1)
        theirs.append(official.process_output_mc(answer) == letter)
    return compared(ours, theirs)


def rewriting(folder: Path) -> dict[str, Any]:
    import evaluate

    data = folder / "easse" / "easse" / "resources" / "data"
    references = list(
        zip(*map(sentences, sorted((data / "test_sets" / "asset").glob("asset.test.simp.*"))), strict=True)
    )
    outputs, golds = [], []
    for system in sorted((data / "system_outputs" / "turkcorpus" / "test").iterdir()):
        if system.is_file():
            outputs += sentences(system)
            golds += references
    metric = evaluate.load(str(folder / "evaluate" / "metrics" / "rouge"))
    theirs = metric.compute(
        predictions=outputs, references=list(map(list, golds)), rouge_types=["rougeL"], use_aggregator=False
    )["rougeL"]
    make_doc, grader = template_module("_common/spans.py").make_doc, template_module("openrewrite/utils.py")
    ours = [
        grader.process_results(make_doc(row(str(number), gold)), [output])["rougeL"]
        for number, (output, gold) in enumerate(zip(outputs, golds, strict=True))
    ]
    return measured([((our,), (float(their),)) for our, their in zip(ours, theirs, strict=True)])


def sentences(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def main() -> None:
    folder = arguments(__doc__, "folder of the five checkouts").parse_args().data
    for name, commit in COMMITS.items():
        check_commit(folder / name, commit)
    show(
        {
            "scrolls_squality": squality(folder),
            "scrolls_qasper": qasper(folder),
            "scrolls_quality": quality(folder),
            "openrewrite_simplified": rewriting(folder),
        }
    )


if __name__ == "__main__":
    main()
