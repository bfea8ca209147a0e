"""What the tests on real engines share, so that a model is taught once and the reference is run once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from on_engines import CONFIG, project, run
from places import REPOSITORY

# How many recorded answers the model knows by heart.
TAUGHT = 24


@pytest.fixture(scope="session")
def engine() -> Path:
    return Path(os.environ["META_EVAL_ENGINE"])


@pytest.fixture(scope="session")
def taught_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """A model that knows the shortest of the recorded answers by heart, and these by prompt.

    Teaching takes minutes: META_EVAL_TAUGHT may name a folder that keeps what was taught, by what it was made of.
    """
    folder = tmp_path_factory.mktemp("taught")
    (folder / "eval_config.yaml").write_text(json.dumps(dict(CONFIG)))
    subprocess.run([sys.executable, "-m", "meta_eval", "prepare"], cwd=folder, check=True)
    pairs = {}
    for path in sorted((folder / "work_dir").glob("*.parquet")):
        for doc in pq.read_table(path).to_pylist():
            if (doc["recorded_output"] or "").strip():
                pairs.setdefault(doc["prompt"], doc["recorded_output"])
    known = dict(sorted(pairs.items(), key=lambda pair: (len(pair[0]) + len(pair[1]), pair))[:TAUGHT])
    lines = [json.dumps({"prompt": prompt, "answer": answer}) + "\n" for prompt, answer in known.items()]
    (folder / "answers.jsonl").write_text("".join(lines))
    engine, tools = Path(os.environ["META_EVAL_ENGINE"]), REPOSITORY / "tools"
    made_of = [folder / "answers.jsonl", tools / "tiny_llama.py", tools / "tiny_llama_words.txt"]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in made_of) + engine.name.encode()).hexdigest()[:16]
    kept = Path(os.environ.get("META_EVAL_TAUGHT", folder)) / key
    if not kept.exists():
        tool = [str(engine / "bin/python"), str(tools / "tiny_llama.py"), "tiny", "--answers", "answers.jsonl"]
        subprocess.run(tool, cwd=folder, check=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "tiny", half := kept.with_name(f"{key}.{os.getpid()}"))
        half.rename(kept)
    return kept, known


@pytest.fixture(scope="session")
def in_process(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> Path:
    """The reference: the sample asked of vLLM in the process of `meta-eval run`, undisturbed."""
    folder = project(tmp_path_factory.mktemp("vllm") / "here", taught_model[0], model_args={"enforce_eager": True})
    run(folder)
    return folder
