"""Whatever is done to the files that lm-eval wrote, reading and judging them ends well or with one sentence."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packs import prepare
from places import REPOSITORY, THOROUGH
from runs import embed_samples, write_run

from meta_eval import compare, report
from meta_eval.base.errors import UserError
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import Run, read_run
from meta_eval.judge.gate import Gate, GateTask, read_gate
from meta_eval.judge.runs import judge
from meta_eval.pack.config.config_loader import load_config
from meta_eval.reports.report import build_report
from meta_eval.reports.samples import read_shown_samples

OUTPUTS = REPOSITORY / "tests" / "data" / "lm_eval_outputs"
VERSIONS = sorted(path.name for path in OUTPUTS.iterdir() if path.is_dir())

# Of every kind that JSON has, and what Python writes and JSON has not.
JUNK: list[Any] = [
    None, True, False, 0, -1, 10**400, 1e308, float("nan"), float("inf"), -0.5, "", "None", "N/A", "a,b", "\ud83d",
    "x" * 1000, [], {}, [[]], [[[]]], {"": {}}, [None], [True, False], [[True], [False]], [1, 2], ["a", 1], [0.5, None],
    {"metric": ["mean"]}, ["none", "none"], "../../x", "\0", json.loads("[" * 150 + "]" * 150),
]  # fmt: skip

many = settings(
    max_examples=80 if THOROUGH else 8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    print_blob=True,
)


def damage(tree: Any, chance: random.Random) -> Any:
    """One node anywhere in a tree replaced, taken out, or renamed."""
    if not isinstance(tree, (dict, list)) or not tree or chance.random() < 0.15:
        return chance.choice(JUNK)
    keys = list(tree) if isinstance(tree, dict) else range(len(tree))
    key: Any = chance.choice(list(keys))
    deed = chance.random()
    if deed < 0.1:
        del tree[key]
    elif deed < 0.15 and isinstance(tree, dict):
        tree[chance.choice(["", "none", "filter", "acc,none", "a/b", "x_stderr,"])] = tree.pop(key)
    else:
        tree[key] = damage(tree[key], chance)
    return tree


def everything(folder: Path, baseline: Run) -> None:
    """Read, judge, compare, and read every sample again; only what a user is told may be raised."""
    for skip in (False, True):
        try:
            run = read_run([folder], skip_damaged=skip)
        except ResultsError as error:
            assert str(error)
            continue
        judged = judge(None, run, None)
        json.dumps(build_report(judged, {"": run}).to_json(), allow_nan=False)
        try:
            list(read_shown_samples(judged.tasks))
            comparison = judge(baseline, run)
        except UserError:
            continue
        build_report(comparison, {"A": baseline, "B": run})


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def baselines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Run]]:
    """Undamaged runs by name: of every version, of a pack, and with samples in the results."""
    pack = write_run(
        tmp_path_factory.mktemp("pack"), [1, 0, 1], recorded=[True, None, False], subtasks=["s.a", "s.b", "s.b"]
    )
    embedded = tmp_path_factory.mktemp("embedded")
    embed_samples(OUTPUTS / VERSIONS[-1], embedded / "results.json")
    folders = {**{version: OUTPUTS / version for version in VERSIONS}, "pack": pack, "embedded": embedded}
    return {name: (folder, read_run([folder])) for name, folder in folders.items()}


@many
@given(st.sampled_from([*VERSIONS, "pack", "embedded"]), st.randoms(use_true_random=False), st.integers(1, 3))
def test_any_node_of_any_file_may_be_anything(
    tmp_path_factory: pytest.TempPathFactory,
    baselines: dict[str, tuple[Path, Run]],
    name: str,
    chance: random.Random,
    deeds: int,
) -> None:
    source, baseline = baselines[name]
    folder = Path(shutil.copytree(source, tmp_path_factory.mktemp("damaged") / "out"))
    for _ in range(deeds):
        path = chance.choice(files_of(folder))
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
        try:
            changed = json.dumps(damage(json.loads(text), chance))
        except ValueError:
            lines = text.splitlines()
            which = chance.randrange(len(lines))
            lines[which] = json.dumps(damage(json.loads(lines[which]), chance))
            changed = "\n".join(lines) + "\n"
        path.write_text(changed, encoding="utf-8", errors="surrogatepass")
    everything(folder, baseline)
    shutil.rmtree(folder)


@many
@given(
    st.sampled_from([*VERSIONS, "pack", "embedded"]),
    st.randoms(use_true_random=False),
    st.binary(max_size=20),
    st.booleans(),
)
def test_any_byte_of_any_file_may_be_lost_or_another(
    tmp_path_factory: pytest.TempPathFactory,
    baselines: dict[str, tuple[Path, Run]],
    name: str,
    chance: random.Random,
    junk: bytes,
    cut: bool,
) -> None:
    source, baseline = baselines[name]
    folder = Path(shutil.copytree(source, tmp_path_factory.mktemp("damaged") / "out"))
    path = chance.choice(files_of(folder))
    content = path.read_bytes()
    at = chance.randrange(len(content))
    path.write_bytes(content[:at] + junk + (b"" if cut else content[at + chance.randrange(40) :]))
    everything(folder, baseline)
    shutil.rmtree(folder)


@pytest.mark.parametrize("depth", [150, 900, 100_000])
@pytest.mark.parametrize("key", ["doc", "target", "arguments", "resps", "filtered_resps", "exact_match", "metrics"])
def test_nesting_of_any_depth(tmp_path: Path, depth: int, key: str) -> None:
    folder = write_run(tmp_path, [1, 0])
    path = next(folder.glob("samples_*"))
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    line = json.loads(first)
    line[key] = "DEEP"
    deep = "[" * depth + "]" * depth
    path.write_text(json.dumps(line).replace('"DEEP"', deep) + "\n" + rest, encoding="utf-8")
    baseline = read_run([write_run(tmp_path / "other", [1, 0])])
    everything(path, baseline)


@pytest.mark.parametrize("obstacle", [os.mkfifo, lambda path: path.symlink_to(path.name)])
@pytest.mark.parametrize("which", ["samples", "results"])
def test_what_is_no_regular_file(tmp_path: Path, which: str, obstacle: Callable[[Path], None]) -> None:
    """It is damage, whether it is named or lies in a folder: its run is not compared without it."""
    folder = write_run(tmp_path / "run", [1.0, 0.0])
    (path,) = folder.glob(f"{which}_*")
    path.unlink()
    obstacle(path)
    for place in (path, folder):
        with pytest.raises(ResultsError, match="not a regular file|symbolic links|no such file") as caught:
            read_run([place])
        assert caught.value.hint or "no such file" in str(caught.value)


def test_a_folder_in_place_of_samples_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [1.0, 0.0])
    (path,) = folder.glob("samples_*")
    path.unlink()
    path.mkdir()
    assert f"has a folder {path.name} beside it, and no file of that name" in " ".join(read_run([folder]).notes)


def test_results_without_a_score_of_a_task_with_samples_are_noted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [1.0, 0.0], extra={"results": {}})
    assert "meta_some: " in (note := " ".join(read_run([folder]).notes)) and "has no score of it" in note


def test_pages_name_what_lies_below_the_working_directory_without_a_path_of_this_machine(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [1.0, 0.0])
    write_run(tmp_path / "b", [1.0, 0.0], samples=False)
    done = cli("compare", "a", "b", "--html", "o.html", "--markdown", "o.md", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    pages = (tmp_path / "o.html").read_text() + (tmp_path / "o.md").read_text()
    assert "b/results_" in pages and str(tmp_path) not in pages


# What became of a samples file, and whether nothing of it can be read.
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "cut in a line": (lambda content: content[:-40], False),
    "cut between lines": (lambda content: b"".join(content.splitlines(keepends=True)[:-3]), False),
    "no metric": (lambda content: content.replace(b'"exact_match":1.0', b'"other":1.0'), False),
    "of another type": (lambda content: content.replace(b'"doc_id":', b'"doc_id":"x","y":'), True),
    "binary": (lambda content: bytes(range(256)) * 8, True),
    "a pointer": (lambda content: POINTER, True),
    "empty": (lambda content: b"", True),
}


def some_tasks(folder: Path, *damaged: str, how: Callable[[bytes], bytes] = lambda content: content) -> Path:
    for number, task in enumerate(("meta_a", "meta_b", "meta_c")):
        write_run(folder, [1.0] * 30 + [0.0] * 10, task=task, time=f"2026-01-02T03-04-0{number}")
    for task in damaged:
        (path,) = folder.glob(f"samples_{task}_*")
        path.write_bytes(how(path.read_bytes()))
    return folder


@pytest.mark.parametrize("name", DAMAGES if THOROUGH else list(DAMAGES)[::4])
def test_a_damaged_task_is_left_out_by_name_and_forbids_ship_until_it_is_left_out_on_purpose(
    tmp_path: Path, name: str
) -> None:
    how, nothing_left = DAMAGES[name]
    a, b = some_tasks(tmp_path / "a"), some_tasks(tmp_path / "b", "meta_b", how=how)
    judged = compare(a, b, margin=10)
    decision = judged.decision
    assert (decision.outcome, [task.name for task in decision.tasks]) == ("UNDECIDED", ["meta_a", "meta_c"])
    (alarm,) = [alarm for alarm in judged.alarms if alarm.kind == "left out"]
    (alarmed,) = alarm.tasks
    assert (alarmed.task, alarmed.run) == ("meta_b", "B") and "samples_meta_b" in str(alarmed.note)
    assert "left out: meta_b in B" in judged.summary
    assert compare(a, b, margin=10, tasks=["-meta_b"]).decision.outcome == "SHIP"
    assert compare(a, b, gate=Gate(margin=10.0, tasks={"-meta_b": GateTask()})).decision.outcome == "SHIP"
    skipped = compare(a, b, margin=10, skip_damaged=True)
    if nothing_left:
        assert skipped.decision.outcome == "SHIP"
        assert any("all files of it are damaged: meta_b" in note for note in skipped.notes)
    with pytest.raises(UserError):
        compare(a, b, margin=10, tasks=["meta_b"])


def test_a_damaged_task_of_a_run_without_a_pack_is_named(tmp_path: Path) -> None:
    judged = report([some_tasks(tmp_path, "meta_b", how=lambda content: b"")])
    assert [task.name for task in judged.tasks] == ["meta_a", "meta_c"]
    assert "left out" in judged.summary
    assert [of.task for alarm in judged.alarms if alarm.kind == "left out" for of in alarm.tasks] == ["meta_b"]


def test_where_no_task_is_left_the_first_error_ends_it(tmp_path: Path) -> None:
    some_tasks(tmp_path, "meta_a", "meta_b", "meta_c", how=lambda content: b"")
    with pytest.raises(ResultsError, match="samples_meta_a.*is empty"):
        report([tmp_path])


@pytest.mark.parametrize("content", [b"", b"{", POINTER])
def test_a_damaged_results_file_leaves_out_the_tasks_beside_it(tmp_path: Path, content: bytes) -> None:
    run = some_tasks(tmp_path / "b")
    (run / "results_2026-01-02T03-04-01.json").write_bytes(content)
    read = read_run([run])
    assert (sorted(read.tasks), list(read.faults)) == (["meta_a", "meta_c"], ["meta_b"])
    (run / "samples_meta_b_2026-01-02T03-04-01.jsonl").unlink()
    judged = compare(some_tasks(tmp_path / "a"), run, margin=10, tasks=["-meta_b"])
    assert judged.decision.outcome == "UNDECIDED"  # nobody knows which tasks it had
    assert "results_2026-01-02T03-04-01.json" in judged.summary


@pytest.mark.parametrize(
    ("form", "words"),
    [("gone", "has no samples beside it"), ("gz", r"has its samples beside it compressed \(samples_meta_some_.*gz\)"),
     ("utf-16", "samples_meta_some_.*it is UTF-16 and not UTF-8"), ("pointer", "samples_meta_some_.*git lfs pull")],
)  # fmt: skip
@pytest.mark.parametrize("side", ["a", "b", "both"])
def test_samples_that_cannot_be_read_beside_a_whole_results_file_are_said(
    form: str, words: str, side: str, tmp_path: Path
) -> None:
    a, b = (write_run(tmp_path / name, [1.0, 0.0]) for name in ("a", "b"))
    for run in {"a": [a], "b": [b], "both": [a, b]}[side]:
        (file,) = run.glob("samples_*")
        if form == "utf-16":
            file.write_text(file.read_text(), encoding="utf-16")
        elif form == "pointer":
            file.write_bytes(POINTER)
        elif form == "gz":
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        if form in ("gone", "gz"):
            file.unlink()
    if form == "gone":
        assert re.search(words, " ".join(compare(a, b).notes))
    else:
        with pytest.raises(ResultsError, match=words):
            compare(a, b)
    with pytest.raises(UserError, match=words):
        prepare(tmp_path / "pack", "recorded", evals_dataset=str(b if side == "b" else a))


@pytest.mark.parametrize("name", ["samples_t_2026-01-02T03-04-05.jsonl.gz", "results_2026-01-02T03-04-05.json.zst"])
def test_a_folder_of_compressed_files_is_named_as_such(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    for place in (tmp_path, tmp_path / name):
        with pytest.raises(ResultsError, match="is compressed, and not read so"):
            report([place])
        with pytest.raises(UserError, match="is compressed, and not read so"):
            prepare(tmp_path / "pack", "recorded", evals_dataset=str(place))


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "it is empty"), (gzip.compress(b"{}"), "it is compressed (gzip)"), ("{}".encode("utf-16"), "it is UTF-16")],
)
def test_a_log_in_a_form_that_no_format_reads_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "log.json").write_bytes(content)
    for place in (tmp_path, tmp_path / "log.json"):
        with pytest.raises(ResultsError, match=re.escape(f"log.json: cannot be read: {words}")):
            report([place])
        with pytest.raises(UserError, match=re.escape(f"cannot be read: {words}")):
            prepare(tmp_path / "pack", "recorded", evals_dataset=str(place))


@pytest.mark.parametrize("name", ["gate.yaml", "eval_config.yaml"])
def test_yaml_in_utf_16_is_said(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("margin: 1\n", encoding="utf-16")
    for read in (read_gate, load_config):
        with pytest.raises(UserError, match=f"{name}: cannot be read: it is UTF-16 and not UTF-8: convert it"):
            read(file)
