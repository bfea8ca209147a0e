"""Makes the docs of one task: rows are fetched, read, checked and joined, and the template makes docs of them."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import tempfile
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import name_error, quoted
from meta_eval.base.errors import TemplateError
from meta_eval.base.inputs import describe_error, read_text
from meta_eval.base.isolation import isolate_code
from meta_eval.base.logs import report_progress
from meta_eval.base.outputs import write_file
from meta_eval.pack.doc_table import begin_parquet, have_one_layout, make_column, make_table
from meta_eval.pack.templates.spec import Template
from meta_eval.pack.templates.template_folder import locate_file
from meta_eval.plugins.meta.doc_checks import check_docs
from meta_eval.plugins.meta.doc_clusters import cluster_docs
from meta_eval.plugins.meta.joins import JOINS
from meta_eval.plugins.meta.joins.join import Joined
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.row_checks import CheckedRows, check_evals_rows
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.source.rows import RowPlace, SourceRow, read_evals_rows
from meta_eval.sockets import DataError, UserError, locating, read_regular

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of a task, and what was noticed while reading them."""

    rows: list[SourceRow]
    """Input of the template. No other object holds them, so that docs can replace them in memory."""

    count: int
    """How many the evals dataset has."""

    labels: frozenset[str]
    """Their ``benchmark_label``."""

    checked: CheckedRows
    """What the checks found, without the rows."""

    joined: Joined | None
    """The result of the join, without the rows; None for a task without a join."""


def read_task_rows(
    template: Template,
    dataset: EvalsDataset,
    originals: Originals,
    *,
    allow_unmatched: bool = False,
    first: int | None = None,
) -> TaskRows:
    """Fetch, read, check and join the rows of a task.

    Args:
        template: The task.
        dataset: The evals dataset that it reads.
        originals: The original datasets, for joins.
        allow_unmatched: Leave out rows without an original.
        first: Only so many rows; None for all.

    Raises:
        SourceError: Rows or originals are not available.
        DataError: A row would make a wrong number, or does not match its original.
    """
    subset, name = template.spec.subset, template.spec.join
    place = RowPlace(dataset.dataset_id, subset)
    report_progress(f"{template.name}: reading {place}")
    rows = read_evals_rows(dataset.fetch(subset), dataset_id=dataset.dataset_id, subset=subset)[:first]
    join = JOINS[name] if name is not None else None
    needs_gold = join is None or not join.brings_gold
    checked = check_evals_rows(rows, place, output_type=template.output_type, needs_gold=needs_gold)
    joined = None
    if join is not None:
        report_progress(f"{template.name}: reading the original of {join.name}")
        joined = join.join(checked.rows, place, originals.rows(join), allow_unmatched=allow_unmatched)
    return TaskRows(
        joined.rows if joined else checked.rows,
        len(rows),
        frozenset(str(row.get("benchmark_label")) for row in rows),
        replace(checked, rows=[]),
        replace(joined, rows=[]) if joined else None,
    )


# Columns that a template must make for every doc. prepare adds ``cluster``.
DOC_COLUMNS = (
    "question", "prompt", "gold", "subtask_name", "choices", "input_question_hash", "input_final_prompts_hash",
    "recorded_output", "recorded_is_correct", "recorded_metrics", "answers",
)  # fmt: skip

_BATCH = 1024  # rows
# Batches. To return memory after each would cost more, as the next one takes it again, and lower no peak.
_RELEASED_AFTER = 4


@dataclass(frozen=True, slots=True)
class TaskDocs:
    """The docs of a task, and warnings about them. The rows are dropped, because docs hold the same texts."""

    rows: int
    """How many the evals dataset has."""

    labels: frozenset[str]
    """Their ``benchmark_label``."""

    checked: CheckedRows
    """The findings of the checks, without the rows."""

    joined: Joined | None
    """The result of the join, without the rows; None for a task without a join."""

    matched: int
    """How many rows the join matched."""

    table: pa.Table
    """The docs."""

    unclustered: str | None
    """The short name of a warning if the template's cluster rule does not fit the docs."""

    content: Future[bytes] | None
    """The parquet file of the docs, which a thread is writing; None if not requested."""


def read_docs(
    root: Path,
    template: Template,
    dataset: EvalsDataset,
    originals: Originals,
    *,
    allow_unmatched: bool = False,
    first: int | None = None,
    written: bool = False,
) -> TaskDocs:
    """Fetch, read, check and join the rows of a task, and make docs of them.

    Args:
        root: The template folder.
        template: The task.
        dataset: The evals dataset that it reads.
        originals: The original datasets, for joins.
        allow_unmatched: Leave out rows without an original.
        first: Only so many rows; None for all.
        written: Start writing their file.

    Raises:
        SourceError: Rows or originals are not available.
        DataError: A row would make a wrong number, or does not match its original.
        TemplateError: The template's ``process_docs`` fails, makes several docs of a row, or its docs lack a column.
    """
    read = functools.partial(read_task_rows, template, dataset, originals, allow_unmatched=allow_unmatched, first=first)
    place = RowPlace(dataset.dataset_id, template.spec.subset)
    task_rows = read()
    matched = len(task_rows.rows)
    given = Counter(map(_make_key, *(map(itemgetter(name), task_rows.rows) for name in _HASHES)))
    origins = task_rows.joined.origins if task_rows.joined else ()
    table = make_docs(root, template, task_rows.rows, replace(place, origins=origins), read_again=lambda: read().rows)
    # Writing takes as long as checking. If no column depends on the checks, start writing first.
    early = template.spec.cluster is None and "cluster" not in table.column_names
    table, unclustered = add_clusters(table, template) if early else (table, None)
    content = begin_parquet(table) if early and written else None
    task_rows.checked.warnings.update(check_docs(table, template, place))
    _refuse_doubles(table, given, where=str(root / template.file))
    if not early:
        table, unclustered = add_clusters(table, template)
        content = begin_parquet(table) if written else None
    return TaskDocs(
        task_rows.count, task_rows.labels, task_rows.checked, task_rows.joined, matched, table, unclustered, content
    )


_HASHES = ("input_question_hash", "input_final_prompts_hash")


def _make_key(question_hash: str, prompt_hashes: Sequence[str] | None) -> tuple[str, ...]:
    return (question_hash, *(prompt_hashes or ()))


def _refuse_doubles(table: pa.Table, given: Counter[tuple[str, ...]], *, where: str) -> None:
    """Refuse more docs than there are rows: an answer would count twice.

    Args:
        table: The docs.
        given: How many rows have each question and prompts.
        where: The template.

    Raises:
        TemplateError: There are more, or a row has more docs than it was given.
    """
    made = Counter(map(_make_key, *(table.column(name).to_pylist() for name in _HASHES)))
    twice = next((key for key, count in made.items() if 0 < given[key] < count), None)
    if table.num_rows <= given.total() and twice is None:
        return
    what = f"process_docs returns {table.num_rows} docs of {given.total()} rows"
    if twice is not None:
        what += f", and {made[twice]} with the question hash {twice[0]}, which {given[twice]} has"
    raise TemplateError(what, where=where, hint="Return at most one doc for a row, as _common/rows.py does")


def add_clusters(table: pa.Table, template: Template) -> tuple[pa.Table, str | None]:
    """Add the column ``cluster``: the template's own, else by its rule, else null. Also return the rule's warning.

    Raises:
        TemplateError: The template's own column holds other values than text and null.
    """
    import pyarrow as pa

    rule, unclustered = template.spec.cluster, None
    labels: list[str | None] = [None] * table.num_rows
    if "cluster" in table.column_names:
        labels = table.column("cluster").to_pylist()
        if not all(label is None or isinstance(label, str) for label in labels):
            raise TemplateError(
                "the docs' cluster is not text", where=str(template.file), hint="Use a short id, or None"
            )
        table = table.drop_columns(["cluster"])
    elif rule is not None:
        columns = ["prompt", "gold", "subtask_name", "answers"]
        labels, unclustered = cluster_docs(table.select(columns).to_pylist(), rule)
    clustered = make_column(labels) if any(labels) else pa.nulls(len(labels), pa.string())
    return table.append_column("cluster", clustered), unclustered


def make_docs(
    root: Path,
    template: Template,
    rows: Sequence[SourceRow],
    place: RowPlace,
    *,
    read_again: Callable[[], Sequence[SourceRow]],
) -> pa.Table:
    """Make docs with the template's ``process_docs``, and check that they have the columns of a doc.

    Args:
        root: The template folder.
        template: The task.
        rows: Emptied as docs are made of them.
        place: Which rows they are, for messages.
        read_again: Reads the rows again, for the rare case that they are needed twice.

    Raises:
        TemplateError: The function fails, or its docs lack a column.
        DataError: The function refuses a row, or the docs do not fit a table.
    """
    module_file, name = template.process_docs or (template.file, "")
    where = f"{root / module_file}: {name}" if name else str(root / module_file)
    with _complete_folder(root, template) as folder, isolate_code(folder, root):
        explain = functools.partial(_explain, where=where, folder=folder, root=root, template=template)
        try:
            process_docs = getattr(_module(folder, module_file), name) if name else None
            make_doc = getattr(process_docs, "make_doc", None)
            with locating(where):
                table = _in_batches(make_doc, rows, place, explain) if make_doc else None
                if table is None:
                    complete = rows if all(rows) else read_again()
                    table = _at_once(process_docs, complete, place, where)
        except UserError:
            raise
        except Exception as error:
            raise explain(error, str(place)) from None
    missing = [column for column in DOC_COLUMNS if column not in table.column_names]
    if missing:
        raise TemplateError(
            f"process_docs returns docs without {', '.join(missing)}",
            where=str(root / template.file),
            hint=f"Every doc has {', '.join(DOC_COLUMNS)}; _common/rows.py shows how",
        )
    return table


def _explain(error: Exception, place: str, *, where: str, folder: Path, root: Path, template: Template) -> UserError:
    """What an error of a template's code means, with the place in its folder where it was raised.

    A ValueError that the code raises itself refuses a row. Any other error is the template's own.

    Args:
        error: Any but a `UserError`.
        place: The rows that docs were made of.
        where: The function that makes them.
        folder: Where its files are, which still exist.
        root: The template folder, as the user wrote it.
        template: The task.
    """
    frames = traceback.extract_tb(error.__traceback__)
    inside = folder.resolve()
    own = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(inside)]
    last = (own or frames)[-1]
    where = f"{where}, {Path(last.filename).name} line {last.lineno} in {last.name}"
    said = name_error(error)
    what = said.removeprefix(f"{type(error).__name__}: ")
    if isinstance(error, ValueError) and last is frames[-1] and "raise " in str(last.line):
        hint = "Correct this row, or take a sound copy of its dataset"
        return DataError(what.rstrip("."), where=f"{place}, made into docs by {where}", hint=hint)
    hint = "Look at the columns of these rows that it reads; where they are sound, mend the template"
    for file in template.files:
        if isinstance(error, json.JSONDecodeError) and file.suffix == ".json" and read_text(folder / file) == error.doc:
            return TemplateError(f"is not JSON: {what}", where=f"{root / file}, read by {where}")
    if "pyarrow" in frames[-1].filename:
        hint = "Give every column of the docs values of one Arrow type (text always fits)"
    return TemplateError(f"fails with {said} on {place}", where=where, hint=hint)


def _at_once(
    process_docs: Callable[[Any], Any] | None, rows: Sequence[SourceRow], place: RowPlace, where: str
) -> pa.Table:
    """Make docs of all rows at once, as lm-eval calls the template."""
    import datasets

    bars = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        dataset = _dataset(rows, place)
        if process_docs is not None:
            try:
                dataset = process_docs(dataset)
            except Exception:
                if make_doc := getattr(process_docs, "make_doc", None):
                    _dataset(
                        [make_doc(row) for row in rows],
                        replace(place, dataset_id=f"{where}, docs of {place.dataset_id}"),
                    )
                raise
    finally:
        if bars:
            datasets.enable_progress_bars()
    if not isinstance(dataset, datasets.Dataset):
        raise TemplateError(
            f"returns {type(dataset).__name__}, and lm-eval needs a datasets.Dataset",
            hint="Return datasets.Dataset.from_list([…]), as mmlu_pro/utils.py does",
        )
    # The schema's metadata of the datasets library would tie the file to a version of that library.
    return _table(dataset).replace_schema_metadata(None)


def _in_batches(
    make_doc: Callable[[SourceRow], SourceRow],
    rows: Sequence[SourceRow],
    place: RowPlace,
    explain: Callable[[Exception, str], UserError],
) -> pa.Table | None:
    """Make the same table in batches. Each row is emptied once its doc is made.

    Each text is then in memory only once.

    Return None if arrow cannot take rows or docs as they are; `_at_once` then converts them or says what is wrong.
    """
    import pyarrow as pa

    if not have_one_layout(rows):
        return None
    tables = []
    try:
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            docs: list[SourceRow] = []
            for number, row in enumerate(batch, start):
                try:
                    docs.append(make_doc(row))
                except Exception as error:
                    raise explain(error, place.row(number, row)) from None
                if not isinstance(docs[-1], Mapping):
                    raise TemplateError(
                        f"returns {type(docs[-1]).__name__} for {place.row(number, row)}, and not a dict"
                    )
            tables.append(make_table(docs))
            for row in batch:
                row.clear()
            if len(tables) % _RELEASED_AFTER == 0:
                _release_memory()
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


@contextmanager
def _complete_folder(root: Path, template: Template) -> Iterator[Path]:
    """A folder with every file of a template: the template folder itself, or a copy completed with shipped files."""
    if all((root / file).exists() for file in template.files):
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="meta-eval-templates-") as folder:
        for file in template.files:
            write_file(Path(folder) / file, read_regular(locate_file(root, file)))
        yield Path(folder)


def _dataset(rows: Sequence[SourceRow], place: RowPlace) -> Any:
    """The rows as a dataset for the template's function, with the columns of all rows.

    Raises:
        DataError: Arrow has no type for a column; the error names the first row that does not fit.
    """
    from datasets import Dataset

    columns = list(dict.fromkeys(column for row in rows for column in row))
    if odd := [column for column in columns if not isinstance(column, str)]:
        raise DataError(f"the name of column {quoted(odd[0])} is no text", where=str(place))
    values = {column: [row.get(column) for row in rows] for column in columns}
    try:
        return Dataset.from_dict(values)
    except Exception as error:  # arrow and datasets raise many kinds of errors
        for column in columns:
            try:
                Dataset.from_dict({column: values[column]})
            except Exception as cause:
                number = _first_that_does_not_fit(values[column])
                raise DataError(
                    f"column {quoted(column)} holds {quoted(rows[number].get(column))}, which does not fit its "
                    f"other values: {describe_error(cause)}",
                    where=place.row(number, rows[number]),
                    hint="Write the column in one Arrow type (text always fits), or leave it out",
                ) from None
        raise DataError(f"the columns do not form a table: {describe_error(error)}", where=str(place)) from None


def _first_that_does_not_fit(values: Sequence[Any]) -> int:
    """Find the first value that does not fit the values before it, by bisection."""
    from datasets import Dataset

    def refused(count: int) -> bool:
        try:
            Dataset.from_dict({"column": list(values[:count])})
        except Exception:
            return True
        return False

    return bisect_left(range(1, len(values)), True, key=refused)


def _table(dataset: Any) -> pa.Table:
    """Docs as an arrow table.

    Raises:
        TemplateError: They cannot be read back.
    """
    try:
        return dataset.with_format("arrow")[:]
    except Exception as error:
        raise TemplateError(f"process_docs returns docs that cannot be read: {describe_error(error)}") from None


def _module(root: Path, file: PurePosixPath) -> ModuleType:
    """A module of a template, by its path, as lm-eval loads it."""
    path = root / file
    spec = importlib.util.spec_from_file_location(str(path.with_suffix("")), path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _release_memory() -> None:
    """Return memory that glibc holds but nobody uses to the system. Other C libraries do nothing.

    Texts of a few KB are on glibc's heap, which shrinks only from its end. Without this, freed rows would still take
    memory while new ones are built.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
