"""Multiple choice on the real engine: every way of asking beside the likelihoods of stock lm_eval, doc by doc.

    python benchmarks/choices.py VENV letters                 all ways; five minutes on two quiet cores
    python benchmarks/choices.py VENV letters stock token     some of them
    python benchmarks/choices.py VENV endings stock run       continuations of several tokens

VENV is a virtual environment with vLLM, lm-eval, transformers and what meta-eval imports, such as `.ci/engine-venv`
makes. ``letters`` is 400 questions in eight subjects, each behind the five shots of its subject, of a tiny Llama that
tools/choosing_llama.py makes prefer different letters. ``endings`` is 100 questions with four endings of about 25
tokens each. The ways:

    stock    the printed lm_eval command: a prompt a choice, with prompt_logprobs
    token    the printed lm_eval command of ``choice_scoring: next_token``: a prompt and a token a question
    run      meta-eval run, vLLM in its process
    serve    meta-eval run, `vllm serve`
    ray      meta-eval run, Ray

Each starts its engine anew. Seconds of CPU are those of all its processes; of run also the wall seconds from the first
answer to the last. ``--keep FOLDER`` keeps what was asked and answered, and a second call with other ways goes on. The
exit code is 1 where a choice differs that is no close call, or a log-likelihood by more than 0.001 nats.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verify_full_size import prose, row, write

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src/meta_eval/base/assets/known_answers/model"
SUBJECTS = 8
CLOSE = 1e-3  # nats between the best two, under which a doc is listed

RUN = ["run", "--no-canary", "--no-report", "--json", "--set", "output_path={way}"]
WAYS: Mapping[str, Sequence[str]] = {
    "stock": [],
    "token": [],
    "run": RUN,
    "serve": [*RUN, "--set", "backend=server", "--set", "serve=true"],
    "ray": [*RUN, "--set", "backend=ray"],
}


def letters(number: int, chance: random.Random) -> tuple[str, list[str]]:
    """A question, and what may follow "Answer:"."""
    return f"Question {number}: {prose(chance, 200)}?", [f" {letter}" for letter in "ABCD"]


def endings(number: int, chance: random.Random) -> tuple[str, list[str]]:
    return f"Question {number}: {prose(chance, 200)}?", [f" {prose(chance, 100)}" for _ in "ABCD"]


TASKS = {"letters": (letters, 400), "endings": (endings, 100)}


def write_rows(folder: Path, task: str, questions_wanted: int | None) -> None:
    make, count = TASKS[task]
    count = questions_wanted or count
    chance = random.Random(0)
    shots = [prose(chance, 3000) for _ in range(SUBJECTS)]
    rows, questions = [], []
    for number in range(count):
        subject = number * SUBJECTS // count
        question, choices = make(number, chance)
        prompt = f"{shots[subject]}\n{question}\nAnswer:"
        losses = [chance.random() * 5 for _ in choices]
        questions.append({"prompt": prompt, "choices": choices})
        rows.append(
            row(
                question, [prompt + choice for choice in choices], subtask=f"mmlu.subject_{subject}",
                gold=[f"Answer:{chance.choice(choices)}"], is_correct=False,
                task_type="Choice", output_prediction_text=None,
                output_choice_negative_log_likelihoods={"raw": losses, "text": losses, "token": losses},
            )
        )  # fmt: skip
    data = folder / "Llama-3.1-8B-evals" / "mmlu.jsonl"
    write(data, rows)
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))


class Bench:
    """One task in one folder, asked in several ways."""

    def __init__(self, venv: Path, folder: Path, task: str, dtype: str, questions: int | None) -> None:
        self.folder, self._python, self._task = folder, str(venv / "bin/python"), task
        self._environment = {
            **os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        }  # fmt: skip
        config = {
            "model_name": "model", "dtype": dtype, "gpu_memory_utilization": 0.3, "model_args": {"enforce_eager": True},
            "evals_dataset": "Llama-3.1-8B-evals", "tasks": "meta_mmlu_pretrain",
        }  # fmt: skip
        if not (folder / "eval_config.yaml").exists():
            write_rows(folder, task, questions)
            self._make_model()
        (folder / "eval_config.yaml").write_text(json.dumps(config))

    def _make_model(self) -> None:
        if self._task == "endings":
            (self.folder / "model").symlink_to(MODEL)
            return
        tool = [self._python, str(ROOT / "tools/choosing_llama.py"), "model", "--start", str(MODEL)]
        sys.stdout.write(f"taught: {self.timed([*tool, '--questions', 'questions.jsonl'])[2]}")

    def timed(self, command: Sequence[str], results: str | None = None) -> tuple[float, float, str]:
        """Seconds of wall time and of CPU, and what it wrote on stdout.

        vLLM aborts now and then at its own exit, when lm_eval has written all: in the folder ``results``.
        """
        before, started = used_by_all(), time.perf_counter()
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, check=False, capture_output=True, text=True
        )
        seconds = time.perf_counter() - started
        after = used_by_all()
        whole = results is not None and any((self.folder / results).rglob("results_*.json"))
        if done.returncode and not (done.returncode == -signal.SIGABRT and whole):
            sys.exit(f"{shlex.join(command)}: {done.returncode}: {done.stderr[-3000:]}")
        return seconds, after - before, done.stdout

    def ask(self, way: str) -> None:
        ours = [self._python, "-m", "meta_eval"]
        if way in ("stock", "token"):
            scoring = {"stock": "likelihood", "token": "next_token"}[way]
            settings = {"choice_scoring": scoring, "work_dir": f"pack_{way}", "output_path": way}
            sets = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
            _, _, printed = self.timed([*ours, "prepare", *sets])
            seconds, cpu, _ = self.timed(shlex.split(printed), results=way)
            answering = ""
        else:
            seconds, cpu, out = self.timed([*ours, *(part.format(way=way) for part in WAYS[way])])
            speed = json.loads(out)["speed"]
            answering = f", first to last answer {speed['seconds']:.1f} s"
        sys.stdout.write(f"{way:6} {seconds:7.1f} s, CPU {cpu:7.1f} s{answering}\n")
        sys.stdout.flush()

    def compare(self) -> bool:
        """How far each way's likelihoods and choices are from those of stock lm_eval, and whether that is near."""
        near = True
        reference = answers(self.folder / "stock")
        margins = {}
        if reference:
            margins = {doc: margin(values) for doc, values in reference.items() if isinstance(values, list)}
            chosen = Counter(best(values) for values in reference.values())
            ordered = sorted(margins.values())
            sys.stdout.write(
                f"stock: {len(reference)} docs, chosen {dict(sorted(chosen.items()))}, margins "
                f"{', '.join(f'{ordered[int(q * (len(ordered) - 1))]:.4f}' for q in (0, 0.05, 0.25, 0.5, 0.75, 1))}, "
                f"{sum(way == 0 for way in ordered)} exact ties, {sum(way < 0.1 for way in ordered)} under 0.1; "
                f"the likeliest token is no choice in {outside(self.folder / 'stock')}\n"
            )
        for way in WAYS:
            result = answers(self.folder / way)
            if way == "stock" or not result or not reference:
                continue
            pairs = [(doc, values, result[doc]) for doc, values in reference.items()]
            other = [doc for doc, values, theirs in pairs if best(values) != best(theirs)]
            apart = [abs(a - b) for _, x, y in pairs if isinstance(y, list) for a, b in zip(x, y, strict=True)]
            said = f", log-likelihoods at most {max(apart):.1e} nats apart" if apart else ""
            sys.stdout.write(f"{way}: the same choice on {len(pairs) - len(other)} of {len(pairs)}{said}\n")
            # Of several tokens each the journal says it of the first continuation alone.
            if self._task == "letters" and (lines := journal(self.folder / way)):
                prompts, cached = (
                    sum(line[name] or 0 for line in lines) for name in ("prompt_tokens", "cached_tokens")
                )
                whole = sum(len(line["choices"]) * (line["prompt_tokens"] + 1) for line in lines)
                sys.stdout.write(
                    f"  {prompts - cached:,} tokens of prompts computed, {cached:,} from the cache; stock computes "
                    f"each prompt of each choice, {whole:,} at least\n"
                )
            near = near and all(margins[doc] < CLOSE for doc in other) and max(apart, default=0.0) < CLOSE
            for doc in other:
                sys.stdout.write(f"  doc {doc}: stock {reference[doc]}, {way} {result[doc]}\n")
        for doc, gap in sorted(margins.items(), key=lambda item: item[1]):
            if gap < CLOSE:
                sys.stdout.write(f"close: doc {doc}, the best two {gap:.1e} nats apart, stock {reference[doc]}\n")
        return near


def adopt_orphans() -> None:
    """Let processes whose parents end before them become children of this one (Linux), so that they are counted."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def used_by_all() -> float:
    """Seconds of CPU of all processes that were started and have ended; it waits for those that are about to."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def answers(output: Path) -> dict[int, Any]:
    """By doc the log-likelihoods of the choices, or the number of the one that was generated."""
    result: dict[int, Any] = {}
    for path in output.rglob("samples_*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            content = json.loads(line)
            first = content["resps"][0][0]
            continuations = [text.strip() for text in content["doc"]["continuations"]]
            result[content["doc_id"]] = (
                continuations.index(first.strip()) if isinstance(first, str)
                else [float(response[0][0]) for response in content["resps"]]
            )  # fmt: skip
    return result


def journal(output: Path) -> list[dict[str, Any]]:
    """The answers of a run on one machine, where the engine says what came from its cache."""
    lines = [line for path in output.glob("answers/*.jsonl") for line in path.read_text().splitlines()[1:]]
    return [item for item in map(json.loads, lines) if item.get("cached_tokens") is not None]


def outside(output: Path) -> int:
    """Docs whose likeliest token is that of no choice."""
    lines = [line for path in output.rglob("samples_*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(all(str(item[0][1]) == "False" for item in json.loads(line)["resps"]) for line in lines)


def best(values: Any) -> int:
    return int(values) if isinstance(values, int) else max(range(len(values)), key=values.__getitem__)


def margin(values: Sequence[float]) -> float:
    first, second, *_ = sorted(values, reverse=True)
    return first - second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venv", type=Path)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []], default=[], metavar="|".join(WAYS))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--questions", type=int)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(arguments.venv.absolute(), folder, arguments.task, arguments.dtype, arguments.questions)
        for way in arguments.ways or WAYS:
            bench.ask(way)
        sys.exit(0 if bench.compare() else 1)


if __name__ == "__main__":
    main()
