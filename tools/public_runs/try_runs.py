"""Put recorded runs of public repositories through prepare, verify, report and compare.

    git clone https://github.com/amoghsingh130/flipeval FOLDER/flipeval     # and so on: runs.yaml lists repositories
    python tools/public_runs/try_runs.py --data FOLDER

Prints the outcome of each run: what verify, report and compare say of it, or the one message. --write enters them into
runs.yaml, of which docs/reference/public_runs.md is made. IFEval needs nltk's punkt_tab, as `verify` says.

The tool calls of sm120-quant-bench are written as batch files (tool_calls.py).

The answers of MMLU-Pro's own script come without prompts and in no format that `evals_dataset` takes. They are
rewritten as rows of Meta's layout. The prompt of such a row is the question as the script writes it, without its five
examples: the pack grades, but must not be asked.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grader_validation"))
from rebuild import details_row, write_details
from template_graders import check_commit
from tool_calls import write_batch

RUNS = Path(__file__).with_name("runs.yaml")
MMLU_PRO = "meta_mmlu_pro_pretrain"
LETTERS = "ABCDEFGHIJ"
Outcome = dict[str, Any]


class RefusedError(Exception):
    """What a command said before it ended with exit code 2."""


class Trials:
    """Tries runs one after the other.

    Args:
        data: The folder of the checkouts.
        scratch: A folder for packs and results.
    """

    def __init__(self, data: Path, scratch: Path) -> None:
        self._data, self._scratch = data, scratch
        self._packs: dict[str, Path] = {}
        self._results: dict[str, Path] = {}

    def try_run(self, run: Mapping[str, Any]) -> Outcome:
        """The outcome of an entry of ``runs``."""
        folder = self._data / run["checkout"]
        if archive := run.get("archive"):
            folder = self._extract(folder / archive)
        self._results[run["id"]] = place = folder / run["path"]
        settings = {"evals_dataset": place, "tasks": "recorded", "model_name": "any/model"}
        if "evals_run" in run:
            settings["evals_run"] = run["evals_run"]
        return self._try(run["id"], settings, run.get("against"))

    def try_answers(self, entry: Mapping[str, Any]) -> Outcome:
        """The outcome of an entry of ``answers``."""
        model = entry["model"]
        rows = read_answers(self._data / "MMLU-Pro" / "eval_results" / f"model_outputs_{model}_5shots.zip")
        dataset = self._scratch / f"{model}-evals"
        write_details(dataset, "mmlu_pro", [make_row(row) for row in rows])
        self._results[model] = self._scratch / "results" / model
        settings = {"evals_dataset": dataset, "tasks": MMLU_PRO, "model_name": f"any/{model}"}
        unread = [row for row in rows if not row["pred"]]
        outcome = self._try(model, settings, None)
        right = sum(map(is_right, rows))
        letters = [find_last_letter(text_of(row)) for row in unread]
        found = sum(row["answer"] == letter for row, letter in zip(unread, letters, strict=True))
        blank = [row for row, letter in zip(unread, letters, strict=True) if letter is None]
        outcome |= {
            "unread": len(unread),
            "with_guesses": percent((right + count_guesses(unread)) / len(rows)),
            "any_letter": percent((right + found + count_guesses(blank)) / len(rows)),
        }
        if against := entry.get("against"):
            for name in (against, model):
                self._grade(name, self._packs[against])
            outcome |= self._judge(model, against)
        return outcome

    def try_tool_calls(self, run: Mapping[str, Any]) -> Outcome:
        """The outcome of an entry of ``tool_calls``."""
        name = run["id"]
        folder = self._scratch / "batches" / name
        write_batch(self._data / run["checkout"], run["build"], folder)
        self._results[name] = self._scratch / "results" / name
        settings = {"evals_dataset": folder, "tasks": "recorded", "model_name": "any/model", "backend": "chat"}
        outcome = self._try(name, {**settings, "model_args.base_url": "http://127.0.0.1:1/v1"}, None)
        if against := run.get("against"):
            for graded in (against, name):
                files = (self._scratch / "batches" / graded / file for file in ("requests.jsonl", "output.jsonl"))
                if not self._results[graded].exists():
                    self._call("grade", *files, "--pack", self._packs[against], "-o", self._results[graded])
            outcome |= self._judge(name, against)
        return outcome

    def _try(self, name: str, settings: Mapping[str, Any], against: str | None) -> Outcome:
        self._packs[name] = pack = self._scratch / "packs" / name
        given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        try:
            self._call("prepare", *given, "--set", f"work_dir={pack}")
            tasks = self._call("verify", pack)["tasks"].values()
            outcome = {
                "tasks": len(tasks),
                "docs": sum(task["total"]["docs"] for task in tasks),
                "agreed": round(sum(task["total"]["compared"] * task["total"]["agreement"] for task in tasks)),
                "compared": sum(task["total"]["compared"] for task in tasks),
                "ours": percent(math.fsum(task["total"]["our_score"] for task in tasks) / len(tasks)),
                "recorded": percent(math.fsum(task["total"]["their_score"] for task in tasks) / len(tasks)),
            }
            return outcome | (self._judge(name, against) if against else {})
        except RefusedError as refused:
            return {"message": str(refused)}

    def _judge(self, name: str, against: str) -> Outcome:
        """What report says of a run against the record of another, and compare of both."""
        ours, baseline = self._results[name], self._results[against]
        commands = {"report": (ours, "--pack", self._packs[against]), "compare": (baseline, ours)}
        said = {}
        for command, words in commands.items():
            try:
                said[command] = describe(self._call(command, *words))
            except RefusedError as refused:
                said[command] = {"message": str(refused)}
        return said

    def _grade(self, model: str, pack: Path) -> None:
        """Grade recorded answers as if the model had just given them to the prompts of a pack."""
        answers = self._scratch / f"{model}.jsonl"
        if self._results[model].exists():
            return
        requests = self._scratch / "requests.jsonl"
        requests.unlink(missing_ok=True)
        self._call("export", pack, "-o", requests)
        by_prompt: dict[str, list[str]] = {}
        for row in read_answers(self._data / "MMLU-Pro" / "eval_results" / f"model_outputs_{model}_5shots.zip"):
            by_prompt.setdefault(make_prompt(row), []).append(text_of(row))
        with requests.open(encoding="utf-8") as lines, answers.open("w", encoding="utf-8") as out:
            next(lines)
            for line in lines:
                request = json.loads(line)
                known = {key: request[key] for key in ("id", "prompt_sha256", "request_sha256")}
                print(json.dumps({**known, "text": by_prompt[request["prompt"]].pop(0)}), file=out)
        self._call("grade", answers, "--pack", pack, "-o", self._results[model])

    def _call(self, *words: object) -> dict[str, Any]:
        """Run a command of meta-eval and return its JSON.

        Raises:
            RefusedError: It ended with an error that a user can cause.
        """
        command = [sys.executable, "-m", "meta_eval", *map(str, words), "--json"]
        done = subprocess.run(command, cwd=self._scratch, capture_output=True, text=True, check=False)
        if done.returncode == 2:
            lines = done.stderr.strip().splitlines()
            refusal = next((line for line in lines if line.startswith(("error: ", "failed: "))), lines[-1])
            for folder in (self._data, self._scratch / "archives", self._scratch):
                refusal = refusal.replace(f"{folder}/", "")
            raise RefusedError(refusal)
        if done.returncode not in (0, 1, 3):
            raise RuntimeError(done.stderr)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def _extract(self, archive: Path) -> Path:
        folder = self._scratch / "archives" / archive.name
        if not folder.exists():
            with tarfile.open(archive) as file:
                file.extractall(folder, filter="data")
        return folder


def read_answers(archive: Path) -> list[dict[str, Any]]:
    """The rows of a file of MMLU-Pro's own script."""
    with zipfile.ZipFile(archive) as file:
        (member,) = (name for name in file.namelist() if name.endswith(".json") and not name.startswith("__MACOSX"))
        return [row for row in json.loads(file.read(member)) if isinstance(row, dict)]


def text_of(row: Mapping[str, Any]) -> str:
    """The answer of the model."""
    return str(row["generated_text"] if "generated_text" in row else row["model_outputs"])


def is_right(row: Mapping[str, Any]) -> bool:
    """The recorded verdict."""
    return bool(row["pred"] == row["answer"])


def find_last_letter(text: str) -> str | None:
    """The last of the letters A to J that stands alone in an answer."""
    letters = re.findall(rf"\b[{LETTERS}]\b", text)
    return letters[-1] if letters else None


def count_guesses(rows: Sequence[Mapping[str, Any]]) -> float:
    """How many of these answers a random letter is expected to get right."""
    return math.fsum(1 / len(row["options"]) for row in rows)


def make_prompt(row: Mapping[str, Any]) -> str:
    """The question as the script writes it, without its examples."""
    options = "".join(f"{letter}. {option}\n" for letter, option in zip(LETTERS, row["options"], strict=False))
    return f"Question:\n{row['question']}\nOptions:\n{options}Answer: Let's think step by step."


def make_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of Meta's layout."""
    return details_row(
        "mmlu_pro", question=row["question"], prompt=make_prompt(row), output=text_of(row), is_correct=is_right(row),
        golds=[row["answer"]], subtask_name=f"mmlu_pro.{row['category'].replace(' ', '_')}",
    )  # fmt: skip


def describe(judgement: Mapping[str, Any]) -> Outcome:
    """The decision of a report, with the mean drop and its 95 % interval in points."""
    decision = judgement["decision"]
    mean = decision["mean"]
    return {
        "decision": decision["outcome"],
        "drop": percent(mean["value"]),
        "interval": [percent(mean["interval"]["lower"]), percent(mean["interval"]["upper"])],
    }


def percent(share: float) -> float:
    """A share in percent, with two decimals."""
    return round(100 * share, 2)


def try_all(listed: Mapping[str, Any], data: Path, scratch: Path) -> Iterator[tuple[dict[str, Any], Outcome]]:
    """Each entry whose checkout is there, with its outcome."""
    trials = Trials(data, scratch)
    for name, source in listed["repositories"].items():
        if (data / name).is_dir():
            check_commit(data / name, source["commit"])
    for run in listed["runs"]:
        if (data / run["checkout"]).is_dir():
            yield run, trials.try_run(run)
    for run in listed["tool_calls"]:
        if (data / run["checkout"]).is_dir():
            yield run, trials.try_tool_calls(run)
    for entry in listed["answers"] if (data / "MMLU-Pro").is_dir() else ():
        yield entry, trials.try_answers(entry)


def main() -> None:
    """Try the runs, print their outcomes, and with ``--write`` enter them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the checkouts; those missing are left out")
    parser.add_argument("--runs", type=Path, default=RUNS, help="the list of runs")
    parser.add_argument("--write", action="store_true", help="enter the outcomes into the list")
    given = parser.parse_args()
    text = given.runs.read_text(encoding="utf-8")
    listed = yaml.safe_load(text)
    names = [run["checkout"] for run in listed["runs"]] + ["MMLU-Pro"]
    if not any((given.data / name).is_dir() for name in names):
        parser.error(f"--data {given.data} has no checkout: none of {', '.join(dict.fromkeys(names))}")
    with tempfile.TemporaryDirectory() as scratch:
        for entry, outcome in try_all(listed, given.data.resolve(), Path(scratch).resolve()):
            entry["outcome"] = outcome
            print(entry.get("id") or entry["model"], json.dumps(outcome, ensure_ascii=False), flush=True)
            if given.write:
                head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
                body = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=118)
                new = given.runs.with_suffix(".new")
                new.write_text(head + body, encoding="utf-8")
                new.replace(given.runs)


if __name__ == "__main__":
    main()
