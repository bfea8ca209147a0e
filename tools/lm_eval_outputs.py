"""Write tests/data/lm_eval_outputs/VERSION: the output of an lm-eval version for four tiny tasks of ours.

``python tools/lm_eval_outputs.py PYTHON FOLDER [OPTION…]``: PYTHON is an interpreter with that version (``pip install
lm_eval==0.4.3``). FOLDER is the output. Options go to lm-eval. The model always answers "lol", and gives longer texts a
lower likelihood. Descriptions of the machine are removed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

TASKS = Path(__file__).with_name("lm_eval_tasks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("folder", type=Path)
    options, others = parser.parse_known_args()
    version = _version(options.python)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "tasks"
        shutil.copytree(TASKS, place)
        if version < (0, 4, 4):  # a task names its group
            (place / "tiny_choices.yaml").unlink()
            for name in ("tiny_sums", "tiny_colours"):
                with (place / f"{name}.yaml").open("a", encoding="utf-8") as file:
                    file.write("group: tiny_choices\n")
        command = [
            options.python, "launch.py", "--model", "tiny", "--model_args", "pretrained=org/Some-Model",
            "--tasks", "tiny_choices,tiny_free,tiny_text", "--include_path", ".", "--output_path", "out",
            "--log_samples", *others,
        ]  # fmt: skip
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1", "HF_HOME": str(place / "home")}
        subprocess.run(command, cwd=place, env=environment, check=True)
        _clean(place / "out")
        shutil.rmtree(options.folder, ignore_errors=True)
        shutil.copytree(place / "out", options.folder)


def _version(python: str) -> tuple[int, ...]:
    code = "import importlib.metadata as m; print(m.version('lm_eval'))"
    stdout = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in stdout.strip().split(".")[:3])


def _clean(out: Path) -> None:
    for path in out.rglob("*results*.json"):
        tree = json.loads(path.read_text(encoding="utf-8"))
        for key in ("pretty_env_info", "git_hash", "upper_git_hash"):
            if key in tree:
                tree[key] = None
        path.write_text(json.dumps(tree, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
