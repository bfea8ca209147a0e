"""Packs for tests, and ways to break one."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from places import TEMPLATES
from plugged import need

Doc = dict[str, Any]


def prepare(work_dir: Path, tasks: str, **keys: Any) -> Path:
    from meta_eval import prepare as run
    from meta_eval.pack.config import load_config

    settings = {
        "model_name": "my/model", "evals_dataset": "sample", "tasks": tasks, "work_dir": str(work_dir),
        "output_path": str(work_dir.parent / "out"), "max_model_len": 262144, "allow_code": True, "template_dir": str(TEMPLATES), **keys,
    }  # fmt: skip
    if settings["evals_dataset"] == "sample":
        need("meta")
    config = load_config(None, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    with without_fingerprints():
        run(config)
    return work_dir


def without_fingerprints() -> AbstractContextManager[Any]:
    """Let datasets give a new dataset no fingerprint, which is most of what a small one costs. Nothing reads it."""
    module = sys.modules.get("datasets.arrow_dataset")
    return nullcontext() if module is None else patch.object(module, "generate_fingerprint", lambda _: "")


def some_templates(here: Path, *names: str) -> Path:
    """Copy some template folders and their shared files to where prepare reads them. Fewer templates are faster."""
    for path in TEMPLATES.iterdir():
        if path.name in names or path.name.startswith("_"):
            to = here / "meta_template" / path.name
            to.parent.mkdir(exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(path, to)
    return here / "meta_template"


def read_docs(pack: Path, task: str) -> list[Doc]:
    docs: list[Doc] = pq.read_table(_docs_file(pack, task)).to_pylist()
    return docs


def write_docs(pack: Path, task: str, docs: Sequence[Doc], *, seal: bool = True) -> None:
    """Replace the docs of a task. ``seal`` updates the digests as prepare would, so that the pack loads."""
    path = _docs_file(pack, task)
    before = path.read_bytes()
    pq.write_table(pa.Table.from_pylist(list(docs), schema=pq.read_schema(path)), path)
    if seal:
        edit(yaml_of(pack, task), hashlib.sha256(before).hexdigest(), hashlib.sha256(path.read_bytes()).hexdigest())
        reseal(pack)


def look_at(pack: Path) -> Any:
    """A pack as the checks of doctor get it."""
    from meta_eval.doctor.check import CheckedPack
    from meta_eval.doctor.prompt_checks import read_prompts
    from meta_eval.pack.manifest import read_manifest

    manifest = read_manifest(pack)
    return CheckedPack(pack, manifest, {name: read_prompts(pack, entry) for name, entry in manifest.tasks.items()})


def reseal(pack: Path) -> None:
    """Update the manifest's digests to the current files."""
    tree = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))
    for name, entry in tree["files"].items():
        content = (pack / name).read_bytes()
        entry.update(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    (pack / "manifest.json").write_text(json.dumps(tree), encoding="utf-8")
    (pack / ".meta-eval.pack.sha256").unlink(missing_ok=True)  # it says that the manifest was edited


def edit_docs(pack: Path, task: str, change: Callable[[list[Doc]], None]) -> None:
    docs = read_docs(pack, task)
    change(docs)
    write_docs(pack, task, docs)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def yaml_of(pack: Path, task: str) -> Path:
    return pack / str(_entry(pack, task)["template"])


def _docs_file(pack: Path, task: str) -> Path:
    return pack / str(_entry(pack, task)["docs_file"])


def _entry(pack: Path, task: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads((pack / "manifest.json").read_text(encoding="utf-8"))["tasks"][task]
    return entry


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def punkt_data(folder: Path) -> Path:
    """Write the smallest Punkt model that nltk reads, an untrained model."""
    english = folder / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    for name in ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"):
        (english / name).write_text("")
    return folder
