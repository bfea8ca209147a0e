"""Several answers a doc: verify grades each, tells their majority as lm-eval does, and report pairs what comes of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lm_eval.api.model import LM
from packs import prepare
from recorded_runs import own_gsm8k, record

from meta_eval import report, verify
from meta_eval.pack.baseline import read_baseline
from meta_eval.pack.manifest import read_manifest

# What is answered to each doc, 5 being right. Of equally frequent answers the first counts, as does "nothing found".
ANSWERS = ("5575", "7577", "7755", "8557", "xx55")
REGEX = {"function": "regex", "regex_pattern": r"#### (\d+)"}
VOTE, FIRST = {"function": "majority_vote"}, {"function": "take_first"}
FILTERS = [
    {"name": "score-first", "filter": [REGEX, FIRST]},
    {"name": "maj@4", "filter": [REGEX, VOTE, FIRST]},
    {"name": "maj@2", "filter": [{"function": "take_first_k", "k": 2}, REGEX, VOTE, FIRST]},
]


class Sampled(LM):  # type: ignore[misc]
    """A model that answers a doc otherwise each time."""

    tokenizer_name = "sampled"
    tokenizer = SimpleNamespace(bos_token="", bos_token_id=1, eos_token="", eos_token_id=2, pad_token=None)

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        times: Counter[int] = Counter()
        texts = []
        for request in requests:
            texts.append(f"It is\n#### {ANSWERS[request.doc_id][times[request.doc_id]]}")
            times[request.doc_id] += 1
        return texts

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack whose baseline is a run of lm_eval alone, with four answers a doc."""
    folder = tmp_path_factory.mktemp("each")
    rows = [{"question": f"Ann has {n} pears and gets 5.", "answer": "#### 5"} for n in range(len(ANSWERS))]
    tasks = own_gsm8k(folder / "tasks", rows, repeats=4, filter_list=FILTERS)
    run = record(tasks, folder / "run", ["gsm8k"], num_fewshot=0, model=Sampled())
    pack = prepare(
        folder / "pack", "gsm8k@0", evals_dataset="lm-eval", template_dir=str(tasks), baseline=str(run)
    )  # fmt: skip
    assert verify(pack).passed
    return pack


def test_verify_grades_each_of_four_answers(pack: Path) -> None:
    docs = read_baseline(pack, read_manifest(pack)).graded.tasks["gsm8k"].docs
    graded = [doc.filter_results["score-first"] for doc in docs]
    assert [result.verdict_of_each["exact_match"] for result in graded] == [
        tuple(float(answer == "5") for answer in answers) for answers in ANSWERS
    ]
    assert [result.metrics["exact_match"] for result in graded] == [0.75, 0.25, 0.5, 0.5, 0.5]


def test_the_majority_is_lm_evals(pack: Path) -> None:
    docs = read_baseline(pack, read_manifest(pack)).graded.tasks["gsm8k"].docs
    voted = [
        result.verdict_of_each["exact_match"][result.majority or 0]
        for doc in docs
        for result in [doc.filter_results["score-first"]]
    ]
    assert [doc.filter_results["score-first"].majority for doc in docs] == [0, 0, 0, 1, 0]
    assert voted == [doc.filter_results["maj@4"].metrics["exact_match"] for doc in docs] == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert all(not doc.filter_results[name].verdict_of_each for doc in docs for name in ("maj@4", "maj@2"))


def test_answers_beyond_the_first_are_no_change_of_the_grader(pack: Path, tmp_path: Path) -> None:
    record(pack, tmp_path / "new", ["gsm8k"], model=Sampled())
    (task,) = report([tmp_path / "new"], pack=pack).tasks
    assert task.sampling is not None
    assert (task.sampling.answers, task.sampling.baseline_answers) == (1, 4)
    assert task.drop_breakdown is not None
    assert task.drop_breakdown.model is not None
    assert (task.drop_breakdown.grader.value, task.drop_breakdown.regraded) == (0.0, 0)
    # Of the recorded answers half are right; lm_eval logs the verdict on the first one, which is right for one of five.
    assert task.drop_breakdown.total.value == task.drop_breakdown.model.value == pytest.approx(0.5 - 0.2)
