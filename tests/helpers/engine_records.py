"""Run lm-eval's own tasks on vLLM over our rows, then verify and report. vLLM starts once, in the engine's environment.

    python engine_records.py FOLDER MODEL    its last line on stdout is a JSON object

It makes a recorded run and its pack. The same model runs over the pack twice. The second time the engine gets other
prompts for the planted docs. Then lm-eval's GSM8K runs with the model's chat template, and frozen with it.
"""

from __future__ import annotations

import copy
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lm_eval.models.vllm_causallms import VLLM
from packs import prepare
from recorded_runs import SHAPES, own_gsm8k, record, task_folder

from meta_eval import report, verify

PLANTED: Mapping[str, Sequence[int]] = {
    "arc_challenge": [0, 3], "hellaswag": [0, 1, 2], "leaderboard_mmlu_pro": [0, 1, 2, 3, 4, 5], "winogrande": [1, 4],
}  # fmt: skip
TEMPLATE = "{{ bos_token }}{% for one in messages %}[{{ one.role }}] {{ one.content }} {% endfor %}"


class Engine(VLLM):  # type: ignore[misc]
    """vLLM that gets the reversed prompt of ``planted`` docs."""

    planted: Mapping[str, Sequence[int]] = {}

    def _asked(self, requests: Sequence[Any]) -> list[Any]:
        return [
            self._other(request) if request.doc_id in self.planted.get(request.task_name, ()) else request
            for request in requests
        ]

    def _other(self, request: Any) -> Any:
        other = copy.copy(request)
        other.arguments = (request.args[0][::-1], *request.args[1:])
        return other

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        return list(super().generate_until(self._asked(requests), disable_tqdm))

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        return list(super().loglikelihood(self._asked(requests), disable_tqdm))


def samples(run: Path, task: str) -> dict[int, dict[str, Any]]:
    """Return the first sample of each doc."""
    (path,) = run.rglob(f"samples_{task}_*.jsonl")
    result: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        content = json.loads(line)
        result.setdefault(content["doc_id"], content)
    return result


def differing(first: Path, second: Path, task: str, *fields: str) -> list[int]:
    sample, other = samples(first, task), samples(second, task)
    return [doc for doc in sample if any(sample[doc][field] != other[doc][field] for field in fields)]


def recorded(folder: Path, model: str, engine: Engine) -> dict[str, Any]:
    names = list(SHAPES)
    run = record(
        task_folder(folder / "tasks", names), folder / "run", names, model=engine, gen_kwargs={"max_gen_toks": 24}
    )
    pack = prepare(folder / "pack", "recorded", evals_dataset=str(run), model_name=model, max_model_len=4096)
    result: dict[str, Any] = {"verify": {}, "again": {}, "other": {}, "planted": {}, "verdicts": {}}
    for name, task in verify(pack).tasks.items():
        total = task.tallies.total if task.tallies else None
        result["verify"][name] = [task.status, total and total.agreed, total and total.docs]
    for which, planted in (("again", {}), ("other", PLANTED)):
        engine.planted = planted
        record(pack, folder / which, names, model=engine)
        for task in report([folder / which], pack=pack).tasks:
            if task.drop_breakdown and task.drop_breakdown.model and task.drop_breakdown.prompts:
                parts = [
                    task.drop_breakdown.grader.value,
                    task.drop_breakdown.model.value,
                    task.drop_breakdown.prompts.value,
                ]
                result[which][task.name] = [*parts, task.flips.compared - task.flips.agreed if task.flips else None]
    engine.planted = {}
    for name in PLANTED:
        result["planted"][name] = differing(run, folder / "other", name, "resps")
        result["verdicts"][name] = differing(run, folder / "other", name, "acc")
    return result


def chat(folder: Path, model: str, engine: Engine) -> bool:
    """Whether the frozen task has the requests and answers of lm-eval's own."""
    templates = own_gsm8k(folder / "gsm8k")
    settings = {"num_fewshot": 2, "chat": True, "fewshot_as_multiturn": True, "gen_kwargs": {"max_gen_toks": 8}}
    record(templates, folder / "plain", ["gsm8k"], model=engine, **settings)
    keys = {"evals_dataset": "lm-eval", "template_dir": str(templates), "apply_chat_template": True}
    pack = prepare(folder / "chat_pack", "gsm8k@2", model_name=model, max_model_len=4096, **keys)
    record(pack, folder / "frozen", ["gsm8k"], model=engine, gen_kwargs={"max_gen_toks": 8})
    first, other = samples(folder / "plain", "gsm8k"), samples(folder / "frozen", "gsm8k")
    bos = engine.tokenizer.bos_token
    return [_said(doc, bos) for doc in first.values()] == [_said(doc, bos) for doc in other.values()]


def _said(sample: Mapping[str, Any], bos: str) -> tuple[str, str]:
    prompt: str = sample["arguments"]["gen_args_0"]["arg_0"]
    return prompt.removeprefix(bos), sample["resps"][0][0]


def main(folder: Path, taught: str) -> None:
    model = Path(shutil.copytree(taught, folder / "model"))
    path = model / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": TEMPLATE}), encoding="utf-8")
    engine = Engine(
        pretrained=str(model), dtype="float32", max_model_len=4096, enforce_eager=True, seed=42, add_bos_token=True,
        gpu_memory_utilization=0.3, batch_size="auto",
    )  # fmt: skip
    recorded_run = recorded(folder, str(model), engine)
    recorded_run["chat"] = chat(folder, str(model), engine)
    sys.stdout.write(json.dumps(recorded_run) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
