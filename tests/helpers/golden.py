"""Golden files: the result of every filter and metric of a task for each recorded answer of the embedded sample.

``python tests/helpers/golden.py [TASK…]`` rewrites them from the templates, and first the index of the sample from its
rows. Read the difference before you commit it.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from places import GOLDEN, REPOSITORY, TEMPLATES, THOROUGH
from plugged import is_there, need

if TYPE_CHECKING:
    from meta_eval.pack.templates.template_folder import TemplateFolder


def prepare_sample(work_dir: Path, tasks: Sequence[str]) -> Any:
    """Prepare a pack of the embedded sample and return its manifest."""
    from packs import without_fingerprints

    from meta_eval import prepare
    from meta_eval.pack.config import Config

    need("meta")
    config = Config(
        model_name="replay",
        evals_dataset="sample",
        tasks=tuple(tasks),
        work_dir=str(work_dir),
        max_model_len=262144,
        allow_code=True,
    )
    with without_fingerprints():
        return prepare(config).manifest


@functools.cache
def shipped() -> TemplateFolder:
    """Read the shipped template folder once. No test changes it."""
    from meta_eval.pack.templates import read_templates

    return read_templates(TEMPLATES)


@functools.cache
def all_tasks() -> list[str]:
    """Return every task of the template folder that the sample offers."""
    if not is_there("meta"):
        return []
    from meta_eval.plugins.meta.source import sample
    from meta_eval.plugins.meta.task_selection import explain_refusal

    return sorted(
        name
        for name, task in shipped().tasks.items()
        if any(explain_refusal(task, part) is None for part in sample.list_parts())
    )


@functools.cache
def compared_tasks() -> list[str]:
    """Return every task in CI, and in plain `make test` MATH and the first task of every third template folder.

    A program of HumanEval never ends, which takes seconds: the tasks of MBPP stand for those with programs.
    """
    if THOROUGH:
        return all_tasks()
    names = [name for name in all_tasks() if not name.startswith("meta_human_eval")]
    by_folder = {shipped().tasks[name].file.parent: name for name in reversed(names)}
    return sorted({"meta_math", *sorted(by_folder.values())[::3]} & {*names})


def replay(pack: Path, tasks: Sequence[str], *, docs: int | None = None) -> dict[str, Any]:
    """Return stock lm-eval's results with the recorded answers as the model, for the first ``docs`` of each task."""
    import lm_eval
    from lm_eval.tasks import TaskManager
    from runs import cheaper_evaluator

    from meta_eval.harness.replay import ReplayLM

    manager = TaskManager(include_path=str(pack), include_defaults=False)
    with cheaper_evaluator():
        results: dict[str, Any] = lm_eval.simple_evaluate(
            model=ReplayLM(), tasks=list(tasks), task_manager=manager, bootstrap_iters=0, log_samples=True,
            confirm_run_unsafe_code=True, limit=docs,
        )  # fmt: skip
    return results


def verdicts(samples: Sequence[dict[str, Any]]) -> list[str]:
    """Make a line for each doc and filter with the question hash, filter, extracted text and every metric."""
    from meta_eval.harness.sample_parser import list_metrics

    lines = []
    for sample in sorted(samples, key=lambda s: (s["doc_id"], s["filter"])):
        extracted = sample["filtered_resps"][0]
        metrics = {name: sample[name] for name in sorted(list_metrics(sample))}
        line = {
            "question": sample["doc"]["input_question_hash"][:12],
            "filter": sample["filter"],
            "extracted": extracted[-60:] if isinstance(extracted, str) else None,
            **metrics,
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


def write_index() -> None:
    """Write the index of the embedded sample."""
    if is_there("meta"):
        from meta_eval.plugins.meta.source import sample

        content = sample.make_index()
        (REPOSITORY / "src" / "meta_eval" / "plugins" / "meta" / "sample" / sample.INDEX).write_text(content, "utf-8")
        sample.read_index.cache_clear()


def main(tasks: Sequence[str]) -> None:
    write_index()
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "pack"
        chosen = list(tasks) or all_tasks()
        prepare_sample(pack, chosen)
        samples = replay(pack, chosen)["samples"]
    GOLDEN.mkdir(exist_ok=True)
    for task in chosen:
        (GOLDEN / f"{task}.jsonl").write_text("\n".join(verdicts(samples[task])) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
