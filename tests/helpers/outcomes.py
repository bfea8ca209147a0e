"""What the tool says of many runs, and whether it still says the same.

    python tests/helpers/outcomes.py                  compare all with outcomes.json; say what differs
    python tests/helpers/outcomes.py --few            the first twenty drawn pairs
    python tests/helpers/outcomes.py --only REGEX     the cases whose names match
    python tests/helpers/outcomes.py --write          write outcomes.json anew
    python tests/helpers/outcomes.py --dump FOLDER    besides, write everything that is said, a file a case

Of each case the JSON of its document is taken apart: its keys, and its tasks; and its page, by sections. Numbers count to
ten digits. `outcome_cases` has the cases. With the environment variable TIMES the seconds of CPU time of each are said.
outcomes.json holds a hash of each part, so that a change shows where it is. To see what changed, dump it before and
after. A key that gets another name stands in `RENAMED`, so that its content is still compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

from drawn_runs import SMALL_PAIRS
from made_once import templates_once
from outcome_cases import PAIRS, Case, list_cases

from meta_eval.base.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
OUTCOMES = ROOT / "tests" / "golden" / "outcomes.json"
# New names of keys, with those that outcomes.json knows.
RENAMED: Mapping[str, str] = {}
# As in tests/conftest.py, and messages as wide as on a terminal.
ENVIRONMENT = {
    "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "META_EVAL_WORKER": "0", "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


# The hash of a pack's manifest, in which paths of this machine are.
_MANIFEST = re.compile(r", manifest \w+")


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
    if isinstance(value, str):
        return _MANIFEST.sub("", value.replace(str(Path.cwd()), "").replace(str(ROOT), ""))
    return value


def restore(key: str, measures: Any) -> Any:
    """A list of measures as outcomes.json knows it: each kind of them had keys of its own."""
    if not isinstance(measures, list) or not all(isinstance(each, dict) and "value" in each for each in measures):
        return measures
    if key == "metrics" and all("name" in each for each in measures):
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
        name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:8]
        for name, part in take_apart(said)
    }


def find_differences(cases: Iterable[str], dump: Path | None = None) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The parts that are not as outcomes.json has them, and the hashes of all.

    Args:
        cases: Names of cases.
        dump: A folder for everything that is said.
    """
    known = json.loads(OUTCOMES.read_text(encoding="utf-8")) if OUTCOMES.exists() else {}
    differing, found = [], {}
    # A new Python each: OpenBLAS looks at its environment but once, and an engine's threads outlive no fork.
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, chdir(folder), context.Pool(2, _begin) as pool:
        for name, said in pool.imap_unordered(_say_normalised, cases):
            found[name] = digest(said)
            if dump is not None:
                text = json.dumps(said, indent=1, sort_keys=True, ensure_ascii=True)
                (dump / f"{re.sub('[^A-Za-z0-9.]+', '_', name)}.json").write_text(text, encoding="utf-8")
            before = known.get(name, {})
            parts = sorted(
                before.keys() ^ found[name].keys() | {part for part in before if before[part] != found[name].get(part)}
            )
            differing += [f"{name}: {part}" for part in parts]
        pool.close()
        pool.join()
    return sorted(differing), found


_KEPT = ExitStack()


def _begin() -> None:
    """As in tests/conftest.py: what is read again and again is read once, and the disk is not waited for."""
    os.fsync = lambda _: None
    logging.disable()
    _KEPT.enter_context(templates_once())


def _say_normalised(name: str) -> tuple[str, dict[str, Any]]:
    began = time.process_time()
    said = normalise(say(list_cases()[name]))
    if "TIMES" in os.environ:
        sys.stderr.write(f"{time.process_time() - began:6.2f} {name}\n")
    return name, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--dump", type=Path)
    parser.add_argument("--only", metavar="REGEX", default="")
    arguments = parser.parse_args()
    if arguments.write and (arguments.few or arguments.only):
        parser.error("--write needs all cases")
    if arguments.dump:
        arguments.dump.mkdir(parents=True, exist_ok=True)
    dump = arguments.dump.absolute() if arguments.dump else None
    os.environ.update(ENVIRONMENT)
    names = [name for name in list_cases(SMALL_PAIRS if arguments.few else PAIRS) if re.search(arguments.only, name)]
    differing, found = find_differences(names, dump)
    if arguments.write:
        lines = [f"{json.dumps(name)}: {json.dumps(parts, sort_keys=True)}" for name, parts in sorted(found.items())]
        OUTCOMES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stderr.write("\n".join(differing[:60]) or f"{len(found)} cases: the same")
    sys.stderr.write("\n")
    return bool(differing and not arguments.write)


if __name__ == "__main__":
    sys.exit(main())
