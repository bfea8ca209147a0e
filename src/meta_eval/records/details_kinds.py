"""What grades details again: told by what was recorded of them, and checked against the recorded verdicts.

Each kind is a YAML in ``assets/details``, plain lm-eval, that a pack brings along. Of choices the recorded likelihoods
must give the recorded verdicts by its rules; where one does not, nobody knows what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from meta_eval import assets
from meta_eval.assets.details.details_scoring import lighteval_choices, truthfulqa_mc
from meta_eval.catalog import boards
from meta_eval.errors import DataError
from meta_eval.records.code import TaskCode
from meta_eval.records.details_samples import Sample
from meta_eval.templates.folder import Reading, closure, merged

Kind = Literal["choices", "contexts", "truthfulqa_mc", "gsm8k", "lighteval_choices", "lighteval_em"]

# What each grades again.
GRADED: Mapping[Kind, tuple[str, ...]] = {
    "choices": ("acc", "acc_norm"),
    "contexts": ("acc",),
    "truthfulqa_mc": ("mc1", "mc2"),
    "gsm8k": ("acc",),
    "lighteval_choices": ("acc", "acc_norm", "acc_norm_no_space"),
    "lighteval_em": ("em",),
}

_FOLDER = "details"

# Sums of exponentials in another order, of numbers that were kept with 32 bits.
_SAME = 1e-4

# The metric of single verdicts of a task that no board shows, the likeliest to be meant first.
_VERDICTS = ("mc2,none", "acc_norm,none", "acc,none")


def details_code(kind: Kind, name: str) -> TaskCode:
    """The code that grades a task of details."""
    root = assets.path(_FOLDER)
    file = PurePosixPath(f"{kind}.yaml")
    reading = Reading(root)
    settings, origins, chain = merged(reading, file, ())
    return TaskCode(
        name, root, file, settings, origins, chain, closure(reading, chain), "meta-eval", PurePosixPath(_FOLDER),
        PurePosixPath(f"{name}.yaml"),
    )  # fmt: skip


def verdict_of(metrics: Iterable[str], name: str) -> str:
    """The ``metric,filter`` of single verdicts: what a board shows of the task, else the likeliest to be meant."""
    there = [f"{metric},none" for metric in metrics]
    parts = [part for board in boards.boards().values() for part in board.parts if name in part.tasks]
    shown = [spec for part in parts for spec in part.metrics]
    return next((one for one in (*shown, *_VERDICTS) if one in there), there[0])


def kind_of(sample: Sample, said: str, where: str) -> Kind:
    """What grades a doc again.

    Args:
        sample: The doc.
        said: The task as its file is named.
        where: The doc, for messages.

    Raises:
        DataError: Nothing here does.
    """
    found: Kind | None = None
    if sample.likelihoods is None:
        if sample.by_lighteval:
            found = "lighteval_em"
        elif "gsm8k" in said.lower():  # of the first board's texts, whose metrics are called alike
            found = "gsm8k"
    elif sample.by_lighteval:
        found = "lighteval_choices"
    else:
        found = "contexts" if sample.prompts else "truthfulqa_mc" if {"mc1", "mc2"} & set(sample.metrics) else "choices"
    if "winogrande" in said.lower() and not sample.by_lighteval and not sample.own_continuations and not sample.prompts:
        raise DataError(
            "does not say what stood behind the prompt: the harness scored one ending behind each choice",
            where=where,
            hint="Leave the task out of tasks",
        )
    if found is not None and set(GRADED[found]) & set(sample.metrics):
        return found
    raise DataError(
        f"was graded by {', '.join(sample.metrics) or 'nothing'}, which nothing here grades again",
        where=where,
        hint="Leave the task out of tasks",
    )


def choice_doc(sample: Sample, kind: Kind, where: str) -> tuple[str, dict[str, Any]]:
    """The delimiter between prompt and choice, and the doc of a choice.

    Raises:
        DataError: It does not say which choice is right, or has none that could be asked.
    """
    if len(sample.choices) < 2 or len(sample.choices) != len(sample.likelihoods or ()) or "" in sample.choices:
        raise DataError(
            f"has {len(sample.choices)} choices and {len(sample.likelihoods or ())} likelihoods", where=where
        )
    golds = [one for one in sample.golds if isinstance(one, int) and not isinstance(one, bool)]
    if not golds or len(golds) != len(sample.golds) or not all(0 <= one < len(sample.choices) for one in golds):
        raise DataError("does not say which choice is right", where=where)
    if kind == "lighteval_choices":
        return "", {"query": sample.query, "choices": list(sample.choices), "golds": golds, "gold": golds[0]}
    if kind == "contexts":
        if len(golds) > 1:
            raise DataError("has several right choices", where=where)
        return "", {"query": sample.query, "choices": list(sample.choices), "gold": golds[0], "ending": sample.ending}
    spaced = [one.startswith(" ") for one in sample.choices]
    if any(spaced) and not all(spaced):
        raise DataError("has choices with and without a space in front", where=where)
    # The harness counts no leading space; where the prompt ends with one, it is the choice's.
    delimiter = sample.delimiter or (" " if all(spaced) else "")
    doc = {"query": sample.query, "choices": [one.removeprefix(" ") for one in sample.choices]}
    if "" in doc["choices"]:
        raise DataError("has an empty choice", where=where)
    if kind == "truthfulqa_mc":
        return delimiter, {**doc, **_two_lists(golds, where)}
    if len(golds) > 1:
        raise DataError("has several right choices", where=where)
    return delimiter, {**doc, "gold": golds[0]}


def _two_lists(golds: list[int], where: str) -> dict[str, int]:
    """Of mc1 the first choice is right and no other; of mc2, which stands behind it, the first ones are."""
    if len(golds) < 2 or golds[0] != 0 or golds[1:] != list(range(golds[1], golds[1] + len(golds) - 1)):
        raise DataError("has right choices at other places than TruthfulQA's two lists have them", where=where)
    return {"mc1": golds[1], "true": len(golds) - 1}


def guard(sample: Sample, doc: dict[str, Any], kind: Kind, where: str) -> None:
    """The recorded likelihoods give the recorded verdicts.

    Raises:
        DataError: One does not.
    """
    costs = [(cost, False) for cost in sample.likelihoods or ()]
    if kind == "truthfulqa_mc":
        computed = truthfulqa_mc(doc, costs)
    else:
        computed = lighteval_choices({"golds": [doc["gold"]], **doc}, costs)
    for name in GRADED[kind]:
        recorded = sample.metrics.get(name)
        if recorded is not None and not math.isclose(computed[name], recorded, rel_tol=0, abs_tol=_SAME):
            raise DataError(
                f"the recorded likelihoods give {name} {computed[name]:.6g}, and {recorded:.6g} was recorded",
                where=where,
                hint="The file was edited, or was graded by rules that nobody here knows: leave the task out of tasks",
            )
