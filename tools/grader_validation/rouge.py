"""Compare our ROUGE for OpenRewrite and ZeroSCROLLS with the `rouge-score` package and `evaluate` on generated texts.

    pip install rouge-score evaluate
    git clone https://github.com/huggingface/evaluate FOLDER/evaluate    # a7dd338
    python tools/grader_validation/rouge.py --data FOLDER

The templates call rouge-score themselves. The comparison covers their choice of the reference, the best of several
references, words without stemming and SCROLLS' geometric mean.
"""

from __future__ import annotations

import math
import random

from spans import text
from template_graders import arguments, check_commit, counted, row, show, template_module

COUNT = 3_000
TYPES = ("rouge1", "rouge2", "rougeL")


def cases(seed: int) -> list[tuple[str, list[str]]]:
    draw = random.Random(seed)
    made = []
    for _ in range(COUNT):
        references = [text(draw, 20) for _ in range(draw.randint(1, 4))]
        words = draw.choice(references).split(" ")
        kept = [word for word in words if draw.random() < 0.8]
        made.append((" ".join([*kept, text(draw, 4)][: draw.choice((None, 3))]), references))
    return made


def main() -> None:
    folder = arguments(__doc__, "folder of the checkout").parse_args().data
    check_commit(folder / "evaluate", "a7dd338")
    import evaluate

    metric = evaluate.load(str(folder / "evaluate" / "metrics" / "rouge"))
    spans, long, rewriting = map(template_module, ("_common/spans.py", "long_context/utils.py", "openrewrite/utils.py"))
    drawn = cases(5)
    theirs = metric.compute(
        predictions=[output for output, _ in drawn],
        references=[references for _, references in drawn],
        rouge_types=list(TYPES),
        use_aggregator=False,
    )
    rewritten = summarised = 0
    triples = []
    for number, (output, references) in enumerate(drawn):
        doc = {**spans.make_doc(row(str(number), references)), "kind": "summary"}
        expected = [theirs[name][number] for name in TYPES]
        rewritten += abs(rewriting.process_results(doc, [output])["rougeL"] - expected[-1]) < 1e-9
        scrolls = long.scrolls(doc, [output])
        triples.append(scrolls["rouge"])
        pairs = zip((*scrolls["rouge"], scrolls["score"]), (*expected, expected[-1]), strict=True)
        summarised += all(abs(a - b) < 1e-9 for a, b in pairs)
    means = [math.fsum(theirs[name]) / COUNT for name in TYPES]
    if abs(long.geometric_mean(triples) - math.prod(means) ** (1 / 3)) > 1e-9:
        raise SystemExit("the geometric mean of the three differs")
    agreed = {"openrewrite_generated": rewritten, "scrolls_rouge_generated": summarised}
    show({name: counted(count, COUNT) for name, count in agreed.items()})


if __name__ == "__main__":
    main()
