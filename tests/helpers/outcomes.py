"""What the tool says of many runs, and whether it still says the same.

    python tests/helpers/outcomes.py                  compare all with outcomes.json; say what differs
    python tests/helpers/outcomes.py --few            the first twenty drawn pairs
    python tests/helpers/outcomes.py --write          write outcomes.json anew
    python tests/helpers/outcomes.py --dump FOLDER    besides, write everything that is said, a file a case

Of each case the JSON of its document is taken apart: its keys, and its tasks. Numbers count to ten digits.
outcomes.json holds a hash of each part, so that a change shows where it is. To see what changed, dump it before and
after. A key that gets another name stands in `RENAMED`, so that its content is still compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drawn_runs import SMALL_PAIRS, write_pair

from meta_eval import compare, prepare, report, run, verify
from meta_eval.api import compare_candidates
from meta_eval.base.errors import UserError
from meta_eval.reports.views import find_view

ROOT = Path(__file__).resolve().parents[2]
OUTCOMES = ROOT / "tests" / "golden" / "outcomes.json"
PAIRS = 200
# New names of keys, with those that outcomes.json knows.
RENAMED: Mapping[str, str] = {}

Case = Callable[[], dict[str, Any]]


def list_cases(pairs: int = PAIRS) -> dict[str, Case]:
    """Every case by name: drawn pairs, and where there are all of these, the runs that the tests hold."""
    cases: dict[str, Case] = {f"pair {number:03}": lambda number=number: _of_pair(number) for number in range(pairs)}
    if pairs < PAIRS:
        return cases
    data = ROOT / "tests" / "data"
    for folder in sorted((data / "lm_eval_outputs").iterdir()):
        if folder.is_dir():
            cases[f"report {folder.name}"] = lambda folder=folder: _document(report(folder))
    cases["verify sample"] = _of_sample
    cases["report sample"] = _of_recorded_run
    cases["candidates"] = _of_candidates
    return cases


def _of_pair(number: int) -> dict[str, Any]:
    a, b, gate = write_pair(number, Path(f"pair_{number}"))
    report = compare(a, b, gate=gate)
    said = _document(report)
    return said | {"junit": str(find_view("junit", "compare").render(report.document()))}


def _of_candidates() -> dict[str, Any]:
    folders = [write_pair(number, Path(f"candidates_{number}"))[0][0] for number in (1, 1_001)]
    pair = write_pair(1, Path("candidates"))
    return _document(compare_candidates(pair[0][0], [pair[1][0], folders[0]]))


def _prepare_sample() -> Path:
    """The pack of the embedded sample, prepared once."""
    pack = Path("sample/work_dir").absolute()
    if not pack.exists():
        keys = {"evals_dataset": "sample", "tasks": "meta_instruct", "template_dir": str(ROOT / "meta_template")}
        Path("sample").mkdir()
        config = Path("sample/eval_config.yaml")
        config.write_text(
            json.dumps(
                {
                    "model_name": "org/m",
                    "backend": "recorded",
                    "output_path": str(pack.parent / "results"),
                    "work_dir": str(pack),
                    **keys,
                }
            ),
            encoding="utf-8",
        )
        prepare(config)
        verify(pack)
    return pack


def _of_sample() -> dict[str, Any]:
    proof = verify(_prepare_sample())
    return {
        "tasks": [
            {
                "name": name, "status": task.status, "scores": dict(task.scores),
                "counts": None if task.tallies is None else asdict(task.tallies.total),
            }
            for name, task in sorted(proof.tasks.items())
        ]
    }  # fmt: skip


def _of_recorded_run() -> dict[str, Any]:
    """The sample's record in a model's place, beside its pack."""
    pack = _prepare_sample()
    run(pack)
    return {"decision": _document(report("sample/results", pack=pack))["decision"]}


def _document(report: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(find_view("json", "compare").render(report.document())))
    return found


def take_apart(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a document: each key, and each task."""
    for key, value in sorted(said.items()):
        if key == "tasks":
            yield from ((f"task {task['name']}", task) for task in value)
        else:
            yield RENAMED.get(key, key), value


def normalise(value: Any) -> Any:
    """Numbers to ten digits, names of keys as outcomes.json knows them, and no path of this machine."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {RENAMED.get(key, key): normalise(restore(key, content)) for key, content in value.items()}
    if isinstance(value, list):
        return [normalise(each) for each in value]
    return value.replace(str(ROOT), "").replace(str(Path.cwd()), "") if isinstance(value, str) else value


def restore(key: str, measures: Any) -> Any:
    """A list of measures as outcomes.json knows it: each kind of them had keys of its own."""
    if not isinstance(measures, list):
        return measures
    if key == "metrics":
        return [
            {"metric": each["name"], **{name: each[name] for name in ("docs", "value", "interval", "baseline")},
             "drop": each["drop"] and each["drop"]["value"], "drop_interval": each["drop"] and each["drop"]["interval"]}
            for each in measures
        ]  # fmt: skip
    if key == "subtasks" or (key == "scores" and measures and "name" in measures[0]):
        new = ("interval", "drop") if key == "subtasks" else ("docs", "clear")
        return [{name: content for name, content in each.items() if name not in new} for each in measures]
    return measures


def say(case: Case) -> dict[str, Any]:
    """What is said of a case; an error of the user's is its message."""
    try:
        return case()
    except UserError as error:
        return {"error": str(error)}


def digest(said: Mapping[str, Any]) -> dict[str, str]:
    """A hash of each part."""
    return {
        name: hashlib.sha256(json.dumps(normalise(part), sort_keys=True).encode()).hexdigest()[:8]
        for name, part in take_apart(said)
    }


def find_differences(
    cases: Mapping[str, Case], dump: Path | None = None
) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The parts that are not as outcomes.json has them, and the hashes of all."""
    known = json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.exists() else {}
    differing, found = [], {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name, case in cases.items():
            said = say(case)
            found[name] = digest(said)
            if dump is not None:
                text = json.dumps(normalise(said), indent=1, sort_keys=True, ensure_ascii=False)
                (dump / f"{name.replace(' ', '_')}.json").write_text(text, encoding="utf-8")
            before = known.get(name, {})
            parts = sorted(
                before.keys() ^ found[name].keys() | {part for part in before if before[part] != found[name].get(part)}
            )
            differing += [f"{name}: {part}" for part in parts]
    return differing, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--dump", type=Path)
    arguments = parser.parse_args()
    if arguments.dump:
        arguments.dump.mkdir(parents=True, exist_ok=True)
    dump = arguments.dump.absolute() if arguments.dump else None
    differing, found = find_differences(list_cases(SMALL_PAIRS if arguments.few else PAIRS), dump)
    if arguments.write:
        lines = [f"{json.dumps(name)}: {json.dumps(parts, sort_keys=True)}" for name, parts in sorted(found.items())]
        OUTCOMES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stderr.write("\n".join(differing[:60]) or f"{len(found)} cases: the same")
    sys.stderr.write("\n")
    return bool(differing and not arguments.write)


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    sys.exit(main())
