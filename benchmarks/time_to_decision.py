"""How long it takes to decide whether a copy of a real model is as good: stock lm_eval, `run` and `fidelity`.

    pip install "lm-eval[api]" && pip install --no-deps -r .ci/requirements-llamacpp.txt
    python benchmarks/time_to_decision.py                  # half an hour of CPU time
    python benchmarks/time_to_decision.py --docs 60        # a few minutes; decides little
    python benchmarks/time_to_decision.py --nel NEL/bin/python    # with nemo-evaluator, see peers_nel.py
    python benchmarks/time_to_decision.py --small          # a few docs of the first copy, and `fidelity` of both: CI

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
machine hardly matter. The exit code of ``--small`` is 1 where a way decides otherwise than it should on so few docs, or
where `run` costs more than `MOST` times stock.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
AT_ONCE = 4  # requests in flight
SMALL = 18  # docs of a small run, asked one at a time: which are computed together shows in the noise of so few
MOST = 1.5
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
NOTHING = Cost(0.0, 0.0, 0.0, "")
NAMES = {"identical": "Q8_0", "Q4_0": "Q4_0"}
CONTROL = 3  # GGUF's type of tokens such as <|im_end|>
# What a small run decides.
SHOULD = {
    ("identical", "stock"): "not shown", ("identical", "compare"): "UNDECIDED", ("identical", "run"): "UNDECIDED",
    ("identical", "fidelity"): "same", ("Q4_0", "fidelity"): "different",
}  # fmt: skip

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


def write_config(folder: Path, model: Path, record: Path, tasks: Path, *, at_once: int) -> Path:
    """A configuration that judges a copy by the record, with ``at_once`` requests in flight."""
    folder.mkdir()
    tree = {
        "model_name": str(model), "evals_dataset": str(record), "tasks": "recorded", "template_dir": str(tasks),
        "backend": "llamacpp", "tokenizer": str(tasks.parent / "tokenizer"), "max_model_len": 512,
        "margin": MARGIN, "concurrency": at_once, "model_args": {"n_threads": 1},
        "work_dir": str(folder / "work_dir"), "output_path": str(folder / "eval_results"),
    }  # fmt: skip
    file = folder / "eval_config.yaml"
    file.write_text(json.dumps(tree))
    return file


def make_models() -> dict[str, Path]:
    """The file of each copy."""
    command = [sys.executable, str(REPOSITORY / "tools/real_model.py"), "gguf", "--only", *NAMES.values()]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(NAMES, map(Path, made.stdout.split()), strict=True))


def write_tokenizer(model: Path, folder: Path) -> None:
    """The tokenizer of a GGUF file, as Hugging Face's library reads it: byte-level BPE that splits digits."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = GGUFReader(model).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokens, kinds, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges"))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(pair.split(" ")) for pair in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [AddedToken(token, special=True) for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens(control)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    end = tokens[fields["tokenizer.ggml.eos_token_id"].contents()]
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))


@dataclass(frozen=True)
class Baseline:
    """The recorded run, and what is made of it once."""

    root: Path
    docs: int
    checked: int
    config: Path
    record: Cost
    nel: Path | None

    @property
    def tasks(self) -> Path:
        return self.root / "tasks"

    @property
    def answers(self) -> Path:
        return self.root / "record"

    @property
    def gate(self) -> Path:
        """The gate of a copy."""
        return self.root / "gate.yaml"

    @property
    def table(self) -> tuple[str, ...]:
        """Arguments of `fidelity`."""
        return "--docs", str(self.checked), "--no-probe"

    def by_stock(self, copy: str, model: Path, drops: dict[str, float], *, again: bool) -> Iterator[Decided]:
        """A stock run, judged by hand and by commands; not ``again`` where the record is one of this copy."""
        output = self.root / f"stock_{copy}" if again else self.answers
        cost = run_stock(model, self.tasks, output) if again else self.record
        decision, drops[copy] = compare_by_hand(self.answers, output)
        is_worse = copy != "identical" and drops[copy] > MARGIN
        yield Decided("stock", copy, cost, self.docs, decision, (decision == "worse") == is_worse)
        read = meta_eval("compare", str(self.answers), str(output), "--max-drop", f"{MARGIN:g}", codes=(0, 1, 3))
        outcome = {code: outcome for outcome, code in EXIT_CODES.items()}[read.code]
        yield Decided("compare", copy, cost, self.docs, outcome, outcome == wanted(copy, drops), read)
        if self.nel:
            runs = {"before": self.answers, "after": output}
            sides = [write_bundles(run, self.root / f"nel_{copy}" / side) for side, run in runs.items()]
            command = [self.nel.with_name("nel"), "compare", *sides, "--max-drop", MARGIN / 100, "--no-report"]
            read = measured(*map(str, command), codes=(0, 1, 2))
            outcome = {0: "PASS", 1: "BLOCK", 2: "UNDECIDED"}[read.code]
            yield Decided(
                "nel compare", copy, cost, self.docs, outcome, outcome == ("BLOCK" if is_worse else "PASS"), read
            )

    def by_run(self, copy: str, config: Path, drops: dict[str, float]) -> Decided:
        """`run --stop-when-decided`; where it reaches the last doc, the whole run decides."""
        gated = "--stop-when-decided", "--gate", str(self.gate)  # so the exit code is the decision
        cost = meta_eval("run", "--config", str(config), *gated, codes=(0, 1, 3))
        (results,) = (config.parent / "eval_results").rglob("results_*.json")
        facts = json.loads(results.read_text())["config"]["meta_eval"].get("stopped")
        outcome = {code: outcome for outcome, code in EXIT_CODES.items()}[cost.code]
        docs = facts["docs"] if facts else self.docs
        shutil.rmtree(config.parent / "eval_results")
        return Decided("run", copy, cost, docs, outcome, outcome == wanted(copy, drops))

    def by_fidelity(self, copy: str, config: Path) -> Decided:
        """`fidelity` beside the table of the baseline and its noise."""
        recorded = self.config.parent / "eval_results/fidelity"
        cost = meta_eval(
            "fidelity", "--config", str(config), *self.table, "--baseline", str(recorded), "--gate", str(self.gate),
            codes=(0, 1, 3),
        )  # fmt: skip
        outcome = {0: "same", 1: "different", 3: "undecided"}[cost.code]
        return Decided(
            "fidelity", copy, cost, self.checked, outcome, outcome == ("same" if copy == "identical" else "different")
        )


def wanted(copy: str, drops: Mapping[str, float]) -> str:
    """The right decision."""
    return "DON'T SHIP" if copy != "identical" and drops[copy] > MARGIN else "SHIP"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", type=int)
    parser.add_argument("--keep", type=Path, help="a folder for what is made")
    parser.add_argument("--nel", type=Path, help="the Python of an environment with nemo-evaluator")
    parser.add_argument("--small", action="store_true", help="a few docs, in seconds, as CI has them")
    chosen = parser.parse_args()
    docs = chosen.docs or (SMALL if chosen.small else DOCS)
    at_once = 1 if chosen.small else AT_ONCE
    root = chosen.keep or Path(tempfile.mkdtemp())
    root.mkdir(parents=True, exist_ok=True)
    models, tasks = make_models(), root / "tasks"
    write_questions(tasks, docs)
    write_tokenizer(models["identical"], root / "tokenizer")

    once = {"the recorded run": run_stock(models["identical"], tasks, root / "record")}
    config = write_config(root / "baseline", models["identical"], root / "record", tasks, at_once=at_once)
    baseline = Baseline(root, docs, min(docs, CHECKED), config, once["the recorded run"], chosen.nel)
    baseline.gate.write_text(f"fidelity: {{min_docs: {baseline.checked}}}\n")
    once["its pack"] = meta_eval("prepare", "--config", str(config))
    once["its table"] = meta_eval("fidelity", "--config", str(config), *baseline.table)
    once["the noise"] = meta_eval("fidelity", "--config", str(config), *baseline.table, "--again")

    decided: list[Decided] = []
    drops: dict[str, float] = {}
    for copy, model in models.items():
        config = write_config(root / f"ours_{copy}", model, root / "record", tasks, at_once=at_once)
        if copy == "identical" or not chosen.small:
            decided += baseline.by_stock(copy, model, drops, again=not chosen.small)
            decided.append(baseline.by_run(copy, config, drops))
        decided.append(baseline.by_fidelity(copy, config))
    show(once, decided, drops)
    return 0 if not chosen.small or is_as_it_should_be(decided) else 1


def is_as_it_should_be(decided: Sequence[Decided]) -> bool:
    """Whether a small run decides what it should, at a cost as it should be; what is not so goes to stdout."""
    cost = {(each.copy, each.way): each.cost.cpu for each in decided}
    said = {(each.copy, each.way): each.decision for each in decided}
    wrong = [f"{copy}, {way}: {said[copy, way]}, not {right}" for (copy, way), right in SHOULD.items()
             if said[copy, way] != right]  # fmt: skip
    times = cost["identical", "run"] / cost["identical", "stock"]
    wrong += [f"run costs {times:.2f} times what stock does, not at most {MOST}"] if times > MOST else []
    for line in wrong:
        print(f"NOT AS IT SHOULD BE: {line}")
    return not wrong


def show(once: dict[str, Cost], decided: list[Decided], drops: dict[str, float]) -> None:
    """Print the tables."""
    for what, cost in once.items():
        print(f"once: {what:18} {cost.seconds:8.1f} s {cost.cpu:8.1f} CPU s")
    print("drop over all docs: " + ", ".join(f"{copy} {points:.2f} points" for copy, points in drops.items()))
    stock = {each.copy: each.cost for each in decided if each.way == "stock"}
    all_docs = max(each.docs for each in decided if each.way == "stock")
    for each in decided:
        if each.copy not in stock:
            print(f"{each.copy:10} {each.way:11} {each.docs:6,} docs {each.cost.cpu:8.1f} CPU s {each.decision}")
            continue
        share, whole = (each.cost.cpu / (stock[each.copy].cpu * docs / all_docs) for docs in (all_docs, WHOLE))
        print(
            f"{each.copy:10} {each.way:11} {each.docs:6,} docs {each.cost.seconds:8.1f} s {each.cost.cpu:8.1f} CPU s, "
            f"of them {each.deciding.seconds:.1f} s and {each.deciding.cpu:.1f} CPU s after the last answer "
            f"({share:4.0%} of stock's, {whole:6.1%} of that of {WHOLE:,} docs) {each.decision:10} "
            f"{'right' if each.is_right else 'not right'}"
        )


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    sys.exit(main())
