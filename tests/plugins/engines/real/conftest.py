"""What the tests on real engines share, so that a model is taught once and the reference is run once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import shared
from on_engines import CONFIG, project, ready, run
from places import REPOSITORY

# How many recorded answers the model knows by heart.
TAUGHT = 24

# The longest first, and first of all two that need nothing of each other, so that two workers end together.
_ORDER = (
    "test_ray_engine", "test_fidelity_engine", "test_real_model", "test_chat_engine", "test_server_engine", "test_choices_engine", "test_engine",
    "test_batch_engine", "test_fidelity_probes", "test_forced_tables", "test_records_engine", "test_hf_engine", "test_doctor_engine",
)  # fmt: skip


# They import the plug-in that they test.
collect_ignore = (
    []
    if (REPOSITORY / "src/meta_eval/plugins/tokens").is_dir()
    else ["test_fidelity_engine.py", "test_fidelity_probes.py", "test_forced_tables.py", "test_real_model.py"]
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _ORDER.index(item.path.stem) if item.path.stem in _ORDER else -1)


@pytest.fixture(scope="session", autouse=True)
def _a_core_each() -> Iterator[None]:
    """Several engines are at work at once. Of each the threads of so small a model would wait for each other, and vLLM
    binds those of every engine to the same cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        yield


@pytest.fixture(scope="session")
def engine() -> Path:
    return Path(os.environ["META_EVAL_ENGINE"])


@pytest.fixture(scope="session")
def taught_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, str]]:
    """A model that knows the shortest of the recorded answers by heart, and these by prompt."""
    folder = shared.once(tmp_path_factory, "taught", teach)
    return folder / "tiny", json.loads((folder / "known.json").read_text(encoding="utf-8"))


def teach(folder: Path) -> None:
    """META_EVAL_TAUGHT may name a folder that keeps what was taught, by what it was made of."""
    (folder / "eval_config.yaml").write_text(json.dumps(dict(CONFIG)))
    subprocess.run([sys.executable, "-m", "meta_eval", "prepare"], cwd=folder, check=True)
    pairs = {}
    for path in sorted((folder / "work_dir").glob("*.parquet")):
        for doc in pq.read_table(path).to_pylist():
            if (doc["recorded_output"] or "").strip():
                pairs.setdefault(doc["prompt"], doc["recorded_output"])
    known = dict(sorted(pairs.items(), key=lambda pair: (len(pair[0]) + len(pair[1]), pair))[:TAUGHT])
    (folder / "known.json").write_text(json.dumps(known), encoding="utf-8")
    lines = [json.dumps({"prompt": prompt, "answer": answer}) + "\n" for prompt, answer in known.items()]
    (folder / "answers.jsonl").write_text("".join(lines))
    engine, tools = Path(os.environ["META_EVAL_ENGINE"]), REPOSITORY / "tools"
    made_of = [folder / "answers.jsonl", tools / "tiny_llama.py", tools / "tiny_llama_words.txt"]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in made_of) + engine.name.encode()).hexdigest()[:16]
    kept = Path(os.environ.get("META_EVAL_TAUGHT", folder)) / key
    if not kept.exists():
        ready(tools / "tiny_llama.py", "tiny", "--answers", "answers.jsonl", folder=folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder / "tiny", half := kept.with_name(f"{key}.{os.getpid()}"))
        half.rename(kept)
    else:
        shutil.copytree(kept, folder / "tiny")


@pytest.fixture(scope="session")
def in_process(tmp_path_factory: pytest.TempPathFactory, taught_model: tuple[Path, Mapping[str, str]]) -> Path:
    """The reference: the sample asked of vLLM in the process of `meta-eval run`, undisturbed."""

    def make(folder: Path) -> None:
        run(project(folder / "here", taught_model[0], model_args={"enforce_eager": True}))

    return shared.once(tmp_path_factory, "in_process", make) / "here"
