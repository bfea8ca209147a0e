"""Run where the engine is: lm-eval's own tasks over our rows on vLLM, started once; what verify and report make of it.

    python engine_records.py FOLDER MODEL    prints one JSON object as its last line

A recorded run, its pack, the same model again over the pack, and another one: the same engine, which is asked something
else for the docs that are planted.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.models.vllm_causallms import VLLM
from packs import prepare
from recorded_runs import SHAPES, record, task_folder

from meta_eval import report, verify

PLANTED = {"arc_challenge": [0, 3], "gsm8k": [1], "ifeval": [0, 2], "leaderboard_mmlu_pro": [0, 1, 2, 3, 4, 5]}


class Other(VLLM):  # type: ignore[misc]
    """The engine; of ``planted`` docs it is asked the prompt backwards."""

    planted: Mapping[str, Sequence[int]] = {}

    def _other(self, requests: Sequence[Any]) -> list[Any]:
        found = []
        for request in requests:
            if request.doc_id in self.planted.get(request.task_name, ()):
                request = copy.copy(request)
                request.arguments = (request.args[0][::-1], *request.args[1:])
            found.append(request)
        return found

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        return list(super().generate_until(self._other(requests), disable_tqdm))

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        return list(super().loglikelihood(self._other(requests), disable_tqdm))


def main(folder: Path, model: str) -> None:
    names = list(SHAPES)
    engine = Other(
        pretrained=model, dtype="float32", max_model_len=4096, enforce_eager=True, seed=42, add_bos_token=True,
        gpu_memory_utilization=0.3, batch_size="auto",
    )  # fmt: skip
    record(task_folder(folder / "tasks", names), folder / "run", names, model=engine, gen_kwargs={"max_gen_toks": 24})
    pack = prepare(folder / "pack", "recorded", evals_dataset=str(folder / "run"), model_name=model, max_model_len=4096)
    found: dict[str, Any] = {"verify": {}, "again": {}, "other": {}}
    for name, task in verify(pack).tasks.items():
        total = task.tallies.total if task.tallies else None
        found["verify"][name] = [task.status, total and total.agreed, total and total.docs]
    for which, planted in (("again", {}), ("other", PLANTED)):
        engine.planted = planted
        record(pack, folder / which, names, model=engine)
        judged = report([folder / which], pack=pack)
        for task in judged.tasks:
            if task.apart and task.apart.model and task.apart.prompts:
                parts = [task.apart.grader.value, task.apart.model.value, task.apart.prompts.value]
                found[which][task.name] = [*parts, task.flips.compared - task.flips.agreed if task.flips else None]
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
