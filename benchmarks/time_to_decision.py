"""How long it takes to decide whether a copy of a real model is as good: stock lm_eval, `run` and `fidelity`.

    pip install "lm-eval[api]" && pip install --no-deps -r .ci/requirements-llamacpp.txt
    python benchmarks/time_to_decision.py                  # half an hour of CPU time
    python benchmarks/time_to_decision.py --docs 60        # a few minutes; decides little
    python benchmarks/time_to_decision.py --nel NEL/bin/python    # with nemo-evaluator, see peers_nel.py

The tokenizer is that of the folder `real_model.py folders --only float32` makes, which needs torch.

The model is SmolLM2-135M-Instruct in eight bits (Q8_0) on llama.cpp. Two copies are judged at a margin of 1 point: the
same file, and the weights in four bits (Q4_0). The docs are 1,800 short questions. The cost of stock lm_eval grows with
the docs, so its cost of 12,000 docs, as many as MMLU-Pro has, is computed from it.

- **stock**: `lm_eval --model local-completions` asks a server about all docs, and a person compares the score with the
  baseline's: worse, if the difference is above 1.96 pooled standard errors (those of lm_eval), else not shown.
- **compare**: `meta-eval compare` reads the files of both stock runs.
- **nel compare**: `nel compare --max-drop 0.01` reads the same verdicts, written in its format. Writing is not counted.
- **run**: `meta-eval run --stop-when-decided`, doc by doc beside the recorded answers of the baseline.
- **fidelity**: `meta-eval fidelity` on 50 recorded answers, beside a table of the baseline and its noise.

What is made once per baseline is listed apart: the recorded run, its pack, and its table with the noise. The truth is
the drop over all docs, of the stock runs. Seconds of CPU are of all processes, engines included, so other jobs on the
machine hardly matter.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from measuring import Cost, measured, meta_eval
from peers import write_bundle

from meta_eval.judge.decide import EXIT_CODES

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = 1_800
WHOLE = 12_000  # docs of MMLU-Pro, for which the cost of stock is also given
MARGIN = 1.0
CHECKED = 50  # docs of the token check
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
NOTHING = Cost(0.0, 0.0, 0.0, "")
NAMES = {"identical": "Q8_0", "Q4_0": "Q4_0"}

# Runs a server of llama.cpp and lm_eval beside it: MODEL PORT_FILE COMMAND…
SERVE = """
import subprocess, sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.cache_ram_mib = sys.argv[1], 2048, 4, 0
params.cpuparams.n_threads = 1
params.verbosity = 0
params.model_alias = {"model"}
server = xllamacpp.Server(params)
sys.exit(subprocess.call([part.replace("ADDRESS", server.listening_address) for part in sys.argv[2:]]))
"""

TASK = {
    "dataset_path": "json", "test_split": "test", "output_type": "generate_until",
    "generation_kwargs": {"until": ["<|im_end|>", "\n", "."], "max_gen_toks": 8, "do_sample": False},
    "doc_to_target": "{{answer}}",
    "filter_list": [{"name": "first-word", "filter": [
        {"function": "regex", "regex_pattern": r"(-?\w+)"}, {"function": "take_first"},
    ]}],
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True}],
    "metadata": {"version": 1.0},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Decided:
    """What a way to decide found of a copy."""

    way: str
    copy: str
    asking: Cost
    docs: int
    decision: str
    is_right: bool | None
    deciding: Cost = NOTHING

    @property
    def cost(self) -> Cost:
        """Of both parts."""
        return Cost(self.asking.seconds + self.deciding.seconds, self.asking.cpu + self.deciding.cpu, 0.0, "")


def write_questions(folder: Path, docs: int) -> None:
    """Three tasks of made-up questions, with the chat template of the model written out."""
    rng = random.Random(1)
    words = (
        "apple",
        "bridge",
        "candle",
        "dragon",
        "engine",
        "forest",
        "garden",
        "hammer",
        "island",
        "jacket",
        "kitten",
    )

    def plus() -> tuple[str, str]:
        a, b = rng.randint(1, 40), rng.randint(1, 20)
        return f"What is {a} + {b}?", str(a + b)

    def larger() -> tuple[str, str]:
        a, b = rng.sample(range(1, 1000), 2)
        return f"Which number is larger, {a} or {b}?", str(max(a, b))

    def later() -> tuple[str, str]:
        some = rng.sample(words, 3)
        place = rng.randrange(3)
        return f"What is the {('first', 'second', 'third')[place]} word of: {', '.join(some)}?", some[place]

    makers: dict[str, Callable[[], tuple[str, str]]] = {"plus": plus, "larger": larger, "word": later}
    examples = {"plus": ("What is 2 + 3?", "5"), "larger": ("Which number is larger, 3 or 8?", "8"),
                "word": ("What is the second word of: house, river, mouse?", "river")}  # fmt: skip
    folder.mkdir()
    for name, make in makers.items():
        pairs: dict[str, str] = {}
        while len(pairs) < docs // len(makers):
            question, answer = make()
            pairs[question] = answer
        lines = [json.dumps({"question": question, "answer": answer}) for question, answer in pairs.items()]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        turns = [
            ("system", SYSTEM),
            ("user", examples[name][0]),
            ("assistant", examples[name][1]),
            ("user", "{{question}}"),
        ]
        text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        tree = {
            "task": f"made_{name}", **TASK, "doc_to_text": f"{text}<|im_start|>assistant\n",
            "dataset_kwargs": {"data_files": {"test": str(folder / f"{name}.jsonl")}},
        }  # fmt: skip
        (folder / f"made_{name}.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))


def run_stock(model: Path, tasks: Path, output: Path) -> Cost:
    """lm_eval over all docs, with its own server."""
    arguments = (
        "model=model,base_url=ADDRESS/v1/completions,num_concurrent=4,max_retries=3,tokenizer_backend=none,"
        "tokenized_requests=False,max_length=512"
    )
    return measured(
        sys.executable, "-c", SERVE, str(model), sys.executable, "-m", "lm_eval", "run", "--model", "local-completions",
        "--model_args", arguments, "--include_path", str(tasks), "--tasks", "made_plus,made_larger,made_word",
        "--log_samples", "--output_path", str(output),
    )  # fmt: skip


def read_scores(output: Path) -> dict[str, tuple[float, float]]:
    """Score and standard error of each task, as lm_eval wrote them."""
    (file,) = output.rglob("results_*.json")
    results: dict[str, Any] = json.loads(file.read_text())["results"]
    key = "exact_match{},first-word"
    return {task: (tree[key.format("")], float(tree[key.format("_stderr")])) for task, tree in results.items()}


def compare_by_hand(baseline: Path, candidate: Path) -> tuple[str, float]:
    """What a person says of two score tables, and the drop in points."""
    before, after = read_scores(baseline), read_scores(candidate)
    drops = [before[task][0] - after[task][0] for task in before]
    errors = [before[task][1] ** 2 + after[task][1] ** 2 for task in before]
    drop, error = sum(drops) / len(drops), math.sqrt(sum(errors)) / len(drops)
    return ("worse" if drop > 1.96 * error else "not shown"), 100 * drop


def write_bundles(output: Path, folder: Path) -> Path:
    """The verdicts of a stock run, as nemo-evaluator reads them."""
    for file in sorted(output.rglob("samples_*.jsonl")):
        docs = sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda doc: doc["doc_id"])
        task = file.name.removeprefix("samples_").rpartition("_")[0]
        write_bundle(folder / task, task, [float(doc["exact_match"]) for doc in docs])
    return folder


def write_config(folder: Path, model: Path, record: Path, tasks: Path) -> Path:
    """A configuration that judges a copy by the record."""
    folder.mkdir()
    tree = {
        "model_name": str(model), "evals_dataset": str(record), "tasks": "recorded", "template_dir": str(tasks),
        "backend": "llamacpp", "tokenizer": str(model.parent / "float32"), "max_model_len": 512, "concurrency": 4,
        "margin": MARGIN, "model_args": {"n_threads": 1},
        "work_dir": str(folder / "work_dir"), "output_path": str(folder / "eval_results"),
    }  # fmt: skip
    file = folder / "eval_config.yaml"
    file.write_text(json.dumps(tree))
    return file


def make_models() -> Path:
    """The folder with both files and the tokenizer."""
    for arguments in (("gguf", "--only", *NAMES.values()),):
        made = subprocess.run(
            [sys.executable, str(REPOSITORY / "tools/real_model.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return Path(made.stdout.split()[-1]).parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", type=int, default=DOCS)
    parser.add_argument("--keep", type=Path, help="a folder for what is made")
    parser.add_argument("--nel", type=Path, help="the Python of an environment with nemo-evaluator")
    chosen = parser.parse_args()
    root = chosen.keep or Path(tempfile.mkdtemp())
    root.mkdir(parents=True, exist_ok=True)
    models, tasks = make_models(), root / "tasks"
    files = {name: models / f"SmolLM2-135M-Instruct.{file}.gguf" for name, file in NAMES.items()}
    write_questions(tasks, chosen.docs)

    once = {"the recorded run": run_stock(files["identical"], tasks, root / "record")}
    config = write_config(root / "baseline", files["identical"], root / "record", tasks)
    once["its pack"] = meta_eval("prepare", "--config", str(config))
    table = ("--config", str(config), "--docs", str(CHECKED), "--no-probe")
    once["its table"] = meta_eval("fidelity", *table)
    once["the noise"] = meta_eval("fidelity", *table, "--again")

    gate = root / "gate.yaml"
    gate.write_text(f"fidelity: {{min_docs: {min(CHECKED, chosen.docs)}}}\n")
    decided: list[Decided] = []
    drops: dict[str, float] = {}
    if chosen.nel:
        write_bundles(root / "record", root / "nel_record")
    for copy, file in files.items():
        cost = run_stock(file, tasks, root / f"stock_{copy}")
        decision, drops[copy] = compare_by_hand(root / "record", root / f"stock_{copy}")
        is_worse = copy != "identical" and drops[copy] > MARGIN
        decided.append(Decided("stock", copy, cost, chosen.docs, decision, (decision == "worse") == is_worse))
        wanted = "DON'T SHIP" if is_worse else "SHIP"
        read = meta_eval(
            "compare", str(root / "record"), str(root / f"stock_{copy}"), "--max-drop", f"{MARGIN:g}", codes=(0, 1, 3)
        )
        outcome = {code: outcome for outcome, code in EXIT_CODES.items()}[read.code]
        decided.append(Decided("compare", copy, cost, chosen.docs, outcome, outcome == wanted, read))
        if chosen.nel:
            sides = [root / "nel_record", write_bundles(root / f"stock_{copy}", root / f"nel_{copy}")]
            command = [chosen.nel.with_name("nel"), "compare", *sides, "--max-drop", MARGIN / 100, "--no-report"]
            read = measured(*map(str, command), codes=(0, 1, 2))
            outcome = {0: "PASS", 1: "BLOCK", 2: "UNDECIDED"}[read.code]
            right = outcome == ("BLOCK" if is_worse else "PASS")
            decided.append(Decided("nel compare", copy, cost, chosen.docs, outcome, right, read))

        config = write_config(root / f"ours_{copy}", file, root / "record", tasks)
        cost = measured(
            sys.executable, "-m", "meta_eval", "run", "--config", str(config), "--stop-when-decided", codes=(0, 1, 3)
        )
        (results,) = (root / f"ours_{copy}" / "eval_results").rglob("results_*.json")
        facts = json.loads(results.read_text())["config"]["meta_eval"].get("stopped")
        outcome = facts["outcome"] if facts else "UNDECIDED"
        decided.append(Decided("run", copy, cost, facts["docs"] if facts else chosen.docs, outcome, outcome == wanted))

        shutil.rmtree(root / f"ours_{copy}" / "eval_results")
        baseline = root / "baseline/eval_results/fidelity"
        cost = measured(
            sys.executable, "-m", "meta_eval", "fidelity", "--config", str(config), *table[2:], "--baseline",
            str(baseline), "--gate", str(gate), codes=(0, 1, 3),
        )  # fmt: skip
        outcome = {0: "same", 1: "different", 3: "undecided"}[cost.code]
        wanted = "same" if copy == "identical" else "different"
        decided.append(Decided("fidelity", copy, cost, CHECKED, outcome, outcome == wanted))
    show(once, decided, drops)


def show(once: dict[str, Cost], decided: list[Decided], drops: dict[str, float]) -> None:
    """Print the tables."""
    for what, cost in once.items():
        print(f"once: {what:18} {cost.seconds:8.1f} s {cost.cpu:8.1f} CPU s")
    print("drop over all docs: " + ", ".join(f"{copy} {points:.2f} points" for copy, points in drops.items()))
    stock = {each.copy: each.cost for each in decided if each.way == "stock"}
    all_docs = max(each.docs for each in decided if each.way == "stock")
    for each in decided:
        share, whole = (each.cost.cpu / (stock[each.copy].cpu * docs / all_docs) for docs in (all_docs, WHOLE))
        print(
            f"{each.copy:10} {each.way:11} {each.docs:6,} docs {each.cost.seconds:8.1f} s {each.cost.cpu:8.1f} CPU s, "
            f"of them {each.deciding.seconds:.1f} s and {each.deciding.cpu:.1f} CPU s after the last answer "
            f"({share:4.0%} of stock's, {whole:6.1%} of that of {WHOLE:,} docs) {each.decision:10} "
            f"{'right' if each.is_right else 'not right'}"
        )


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    main()
