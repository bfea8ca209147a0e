"""The recorded answers as plain lm-eval tasks, which stock ``lm_eval`` scores on any of its backends.

lm-eval keeps of a text the sum of its log-probabilities and whether each token is the likeliest; so these tasks have no
ranks and no positions. They stand in a folder of their own, and packs stay as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval import assets
from meta_eval.answers.answer_files import Answers
from meta_eval.answers.requests import Encoder, Request
from meta_eval.backends.registry import find_backend
from meta_eval.backends.settings import RunSettings
from meta_eval.boundary.hashing import hash_file
from meta_eval.messages.errors import PackError, UserError
from meta_eval.pack.integrity import check_unchanged
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.prompt_lengths import find_tokenizer
from meta_eval.pack.task_choice import choose_tasks_to_ask
from meta_eval.running.forced_requests import ToForce
from meta_eval.verb_options import StockOptions

GROUP = "meta_fidelity"

_TASK = """\
task: {name}
custom_dataset: !function pack_docs.load
dataset_kwargs:
  docs_file: "{name}.parquet"
  sha256: "{sha256}"
test_split: latest
output_type: loglikelihood
doc_to_text: !function stock_fidelity.doc_to_text
doc_to_target: !function stock_fidelity.doc_to_target
target_delimiter: ""
num_fewshot: 0
process_results: !function stock_fidelity.process_results
metric_list:
  - metric: greedy
    aggregation: mean
    higher_is_better: true
{units}metadata:
  version: 1.0
"""

_UNIT = """\
  - metric: {metric}
    aggregation: !function stock_fidelity.{function}
    higher_is_better: {better}
"""


@dataclass(slots=True)
class Stock:
    """What was written.

    Attributes:
        folder: For ``--include_path``.
        tasks: The names of the tasks, and how many docs each has.
        command: The command that runs them, as an argument vector.
    """

    folder: Path
    tasks: dict[str, int]
    command: tuple[str, ...]


def write_stock(pack: Path, folder: Path, settings: RunSettings, options: StockOptions) -> Stock:
    """Write the recorded answers of a pack as tasks for stock ``lm_eval``, whole or not at all.

    Args:
        pack: The folder that prepare wrote.
        folder: Where; must not be there, or be empty.
        settings: Which model the command asks, on which engine.
        options: Which of the recorded answers.

    Raises:
        UserError: The pack has no recorded texts, or the folder cannot be written.
    """
    manifest, backend = read_manifest(pack), find_backend(settings.backend)
    if backend.no_command:
        raise UserError(
            f"lm_eval cannot ask it: {backend.no_command}",
            where=f"backend {backend.name}",
            hint="Use vllm or hf",
        )
    names = choose_tasks_to_ask(manifest, options.tasks)
    check_unchanged(pack, manifest, edited=options.edited)
    wanted = ToForce(pack, manifest, names, settings, options.docs, (0, 1), 0, Answers())
    tokenizer = find_tokenizer(settings.tokenizer_of())
    encoder = None
    if tokenizer is not None:
        encoder = Encoder(tokenizer, needs_bos=manifest.needs_bos, add_bos=manifest.run.add_bos_token)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise PackError("already exists and is not empty", where=str(folder), hint="Name a new folder")
    sizes: dict[str, int] = {}
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".stock-", dir=folder.parent) as made:
            there = Path(made) / "tasks"
            there.mkdir()
            for task, rows in _rows(wanted, encoder):
                name = f"fidelity_{task}"
                sizes[name] = len(rows)
                (there / f"{name}.yaml").write_text(_yaml(there, name, rows), encoding="utf-8")
            if not sizes:
                raise UserError("none of these docs has a recorded text", where=str(pack))
            listed = "".join(f"  - {name}\n" for name in sizes)
            (there / f"{GROUP}.yaml").write_text(f"group: {GROUP}\ntask:\n{listed}", encoding="utf-8")
            for source in ("pack_docs.py", "stock_fidelity.py", "work_dir.gitignore"):
                target = ".gitignore" if source == "work_dir.gitignore" else source
                (there / target).write_bytes(assets.read_asset(source))
            if folder.exists():
                folder.rmdir()
            there.rename(folder)
    except OSError as error:
        raise PackError(f"cannot be written ({error.strerror})", where=str(folder)) from None
    asked = settings.model_copy(
        update={"tasks": (GROUP,), "include_path": str(folder), "limit": None, "runs_code": False}
    )
    return Stock(folder, sizes, backend.command(asked))


def _rows(wanted: ToForce, encoder: Encoder | None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """By task its docs."""
    task, rows = "", list[dict[str, Any]]()
    for request in wanted:
        if request.kind != "force":
            continue
        if request.task != task and rows:
            yield task, rows
            rows = []
        task = request.task
        rows.append(_row(request, encoder))
    if rows:
        yield task, rows


def _row(request: Request, encoder: Encoder | None) -> dict[str, Any]:
    (text,) = request.continuations
    row = {"doc": request.doc, "request_sha256": request.sha256, "prompt": request.prompt, "recorded": text}
    return row if encoder is None else {**row, "tokens": len(encoder.encode_text(text))}


def _yaml(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / f"{name}.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows)), file, compression="zstd")
    units = [("logprob_per_byte", "per_unit", "true")]
    if "tokens" in rows[0]:
        units += [("logprob_per_token", "per_unit", "true"), ("perplexity_per_token", "perplexity", "false")]
    lines = [_UNIT.format(metric=metric, function=function, better=better) for metric, function, better in units]
    return _TASK.format(name=name, sha256=hash_file(file), units="".join(lines))
