"""Runs of lm-eval's own tasks, recorded by lm-eval over a few of our own rows in the benchmarks' columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import lm_eval
import yaml
from runs import cheaper_evaluator

# Columns of each installed task. No row is from a benchmark.
ARC = [
    {
        "id": f"own-{n}",
        "question": f"Which of these is number {n}?",
        "choices": {"text": [f"pebble {n}", f"a cup of rain {n}", f"moss {n}"], "label": ["A", "B", "C"]},
        "answerKey": "ABC"[n % 3],
    }
    for n in range(7)
]
HELLASWAG = [
    {
        "ind": n,
        "activity_label": "Baking",
        "ctx_a": f"A woman opens oven {n}.",
        "ctx_b": "she",
        "endings": [f"takes out {n} loaves.", "[title] sings a long song about rain.", "sleeps.", "flies off."],
        "label": str(n % 4),
    }
    for n in range(6)
]
MMLU = [
    {
        "question": f" What comes after {n}? ",
        "subject": "abstract_algebra",
        "choices": [str(n + k) for k in range(4)],
        "answer": 1,
    }
    for n in range(8)
]
TRUTHFUL = [
    {
        "question": f"Do {n} moons sing?",
        "mc1_targets": {"choices": ["No.", "Yes, at night.", "Only two of them."], "labels": [1, 0, 0]},
        "mc2_targets": {"choices": ["No.", "They do not.", "Yes."][: 2 + n % 2], "labels": [1, 1, 0][: 2 + n % 2]},
    }
    for n in range(5)
]
GSM8K = [{"question": f"Ann has {n} pears and gets 2.", "answer": f"{n} + 2 = {n + 2}\n#### {n + 2}"} for n in range(8)]
IFEVAL = [
    {
        "key": n,
        "prompt": f"Write about tea {n}, without commas.",
        "instruction_id_list": ["punctuation:no_comma", "keywords:existence"][: 1 + n % 2],
        "kwargs": [{"keywords": None}, {"keywords": ["tea"]}][: 1 + n % 2],
    }
    for n in range(5)
]
BBH = [
    {"input": f"Take {n} steps. Are you back?\nOptions:\n- Yes\n- No", "target": "Yes" if n == 0 else "No"}
    for n in range(5)
]
MMLU_PRO = [
    {
        "question_id": n,
        "question": f"Which of {n} is even?",
        "options": [str(n + k) for k in range(3 + n)],
        "answer": "A",
        "answer_index": 0,
        "cot_content": "A: Let's think step by step.",
        "category": "math",
        "src": "ours",
    }
    for n in range(6)
]
WINOGRANDE = [
    {
        "sentence": f"The cup {n} did not fit in the box, for the _ was too large.",
        "option1": f"cup {n}",
        "option2": "box",
        "answer": "12"[n % 2],
    }
    for n in range(6)
]
LAMBADA = [{"text": f"The cat sat on mat {n} and slept", "domain": None} for n in range(4)]
BLIMP = [
    {"sentence_good": f"The {n} cats sleep.", "sentence_bad": f"The {n} cats sleeps.", "UID": "ours"} for n in range(4)
]
CROWS_PAIRS = [
    {"sent_more": f"Bakers sing {n} songs.", "sent_less": f"Smiths sing {n} songs.", "bias_type": "job"}
    for n in range(4)
]
WIKITEXT = [{"page": f"Rain fell on town {n}. It did not stop."} for n in range(3)]

# Task: rows, the splits that they replace, shots.
Shapes = Mapping[str, tuple[Sequence[Mapping[str, Any]], tuple[str, ...], int]]
SHAPES: Shapes = {
    "arc_challenge": (ARC, ("train", "validation", "test"), 2),
    "hellaswag": (HELLASWAG, ("train", "validation"), 2),
    "mmlu_abstract_algebra": (MMLU, ("dev", "test"), 3),
    "truthfulqa_mc2": (TRUTHFUL, ("validation",), 0),
    "gsm8k": (GSM8K, ("train", "test"), 2),
    "ifeval": (IFEVAL, ("train",), 0),
    "leaderboard_bbh_navigate": (BBH, ("test",), 3),
    "leaderboard_mmlu_pro": (MMLU_PRO, ("validation", "test"), 2),
    "winogrande": (WINOGRANDE, ("train", "validation"), 2),
    "lambada_openai": (LAMBADA, ("test",), 0),
    "blimp_adjunct_island": (BLIMP, ("train",), 0),
    "crows_pairs_english": (CROWS_PAIRS, ("test",), 0),
    "wikitext": (WIKITEXT, ("train", "validation", "test"), 0),
}


def task_folder(folder: Path, names: Sequence[str], shapes: Shapes = SHAPES) -> Path:
    """Write a folder for ``--include_path`` in which installed tasks read our rows."""
    installed = Path(lm_eval.__file__).parent / "tasks"
    folder.mkdir(parents=True)
    for name in names:
        rows, splits, shots = shapes[name]
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        tree = {
            "include": str(_yaml_of(installed, name)),
            "task": name,
            "dataset_path": "json",
            "dataset_name": None,
            "dataset_kwargs": {"data_files": dict.fromkeys(splits, str(data))},
            "num_fewshot": shots,
        }
        (folder / f"{name}.yaml").write_text(yaml.dump(tree, sort_keys=False), encoding="utf-8")
    return folder


def own_gsm8k(folder: Path, its_rows: Sequence[Mapping[str, Any]] = GSM8K, **changes: Any) -> Path:
    """Write lm-eval's GSM8K over our own rows into a template folder, with ``changes`` to its YAML."""
    folder.mkdir()
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in its_rows), encoding="utf-8")
    tree = yaml.safe_load((Path(lm_eval.__file__).parent / "tasks/gsm8k/gsm8k.yaml").read_text(encoding="utf-8"))
    tree |= {"dataset_path": "json", "dataset_name": None}
    tree["dataset_kwargs"] = {"data_files": {"train": str(rows), "test": str(rows)}}
    (folder / "gsm8k.yaml").write_text(yaml.dump(tree | changes), encoding="utf-8")
    return folder


def whole_tasks(folder: Path, names: Sequence[str]) -> Path:
    """Write a template folder in which installed tasks of only YAML read our rows, without outside includes."""
    from meta_eval.pack.records.task_code import find_code

    folder.mkdir()
    for name in names:
        rows, splits, shots = SHAPES[name]
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        tree = json.loads(json.dumps(dict(find_code(name, Path("nowhere")).settings), default=str))
        tree |= {"dataset_path": "json", "dataset_name": None, "num_fewshot": shots}
        tree["dataset_kwargs"] = {"data_files": dict.fromkeys(splits, str(data))}
        (folder / f"{name}.yaml").write_text(yaml.dump(tree), encoding="utf-8")
    return folder


def _yaml_of(installed: Path, name: str) -> Path:
    from meta_eval.pack.records.task_code import find_code

    code = find_code(name, Path("nowhere"))
    return installed / code.file


def record(
    include: Path,
    output: Path,
    names: Sequence[str],
    *,
    salt: str = "one",
    planted: Mapping[str, Sequence[int]] | None = None,
    chat: bool = False,
    model: Any = None,
    **settings: Any,
) -> Path:
    """Run lm-eval with a model without weights, or ``model``, and write results and samples as its command line does.

    Args:
        include: Folder of the tasks, or a pack.
        output: ``--output_path``.
        names: Names of the tasks.
        salt: A different salt is a different model.
        planted: Docs by task with another answer.
        chat: Render a chat template that begins with a BOS.
        settings: Further arguments of lm-eval's ``simple_evaluate``.
    """
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from meta_eval.harness.evaluator import silence_libraries

    tracker = EvaluationTracker(output_path=str(output))
    # To list installed packages takes seconds.
    with silence_libraries(), cheaper_evaluator(), patch("lm_eval.evaluator.add_env_info"):
        results = simple_evaluate(
            model=make_model(salt, planted or {}) if model is None else model,
            tasks=list(names),
            task_manager=TaskManager(include_path=str(include), include_defaults=False),
            evaluation_tracker=tracker,
            log_samples=True,
            bootstrap_iters=0,
            apply_chat_template=chat,
            **settings,
        )
        samples = results.pop("samples")
        results["config"]["model_args"] = {"pretrained": f"org/Model-{salt}"}
        tracker.general_config_tracker.model_name_sanitized = f"org__Model-{salt}"
        tracker.save_results_aggregated(results=results, samples=samples)
        for name, of_task in samples.items():
            tracker.save_results_samples(task_name=name, samples=of_task)
    return output


def make_model(salt: str, planted: Mapping[str, Sequence[int]]) -> Any:
    """Make a model that answers by a hash of the request and the salt."""
    from lm_eval.api.model import LM

    class Hashed(LM):  # type: ignore[misc]
        tokenizer_name = "hashed"
        tokenizer = SimpleNamespace(
            bos_token="<s>", bos_token_id=1, eos_token="</s>", eos_token_id=2, pad_token=None, pad_token_id=None
        )

        def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
            return "<s>" + "".join(f"[{message['role']}] {message['content']} " for message in chat_history)

        def chat_template(self, _: Any = False) -> str:
            return "[role] content"

        def _share(self, request: Any, text: str) -> float:
            """Return a share from 0 to 1, without the BOS that a template may render and every engine adds."""
            changed = request.doc_id in planted.get(request.task_name, ())
            key = f"{salt}{changed}{request.args[0].removeprefix('<s>')}\n{text}"
            return int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) / 2**32

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [
                self._likeliest(request)
                if "allowed_token_ids" in request.args[1]
                else _words(self._share(request, ""), request.args[0])
                for request in requests
            ]

        def _likeliest(self, request: Any) -> str:
            """Return the choice with the highest `loglikelihood`."""
            return str(min(request.doc["continuations"], key=lambda end: self._share(request, end)))

        def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            shares = [self._share(request, request.args[1]) for request in requests]
            return [(-20 * share - 0.1, share < 0.3) for share in shares]

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            return [-100 * self._share(request, "") for request in requests]

    return Hashed()


def _words(share: float, prompt: str) -> str:
    """Return an answer that a task may accept: a sum, or a sentence with or without a comma."""
    number = next((int(word) for word in reversed(prompt.replace(".", " ").split()) if word.isdigit()), 0)
    return (f"It is\n#### {number}", "tea, and more tea", "tea and 7", f"so 2 more is {number}\n#### 5")[int(4 * share)]
