"""verify: it finds what is wrong with a pack, and nothing where nothing is."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import cli
from forked import forked
from golden import all_tasks, shipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import few
from noted import noted
from packs import Doc, edit, edit_docs, prepare, read_docs, reseal, some_templates, tree, write_docs, yaml_of
from places import REPOSITORY, TEMPLATES, THOROUGH
from rows import make_row, write_rows
from runs import run_lm_eval
from shared import whole_pack

from meta_eval.base.errors import ConfigError, PackError, TemplateError
from meta_eval.base.hashing import hash_file
from meta_eval.base.outputs import OutputError
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.verify import Proof, TaskProof, find_verify_folder, verify
from meta_eval.plugins.meta.source import sample as embedded

LETTERS = "meta_mmlu_pro_instruct"
CHOICE = "meta_mmlu_pretrain"
# What is verified of the sample, and what of it the tests below look at besides.
FEW = few(all_tasks(), 4)
SOME = sorted({*FEW, *(() if THOROUGH else ("meta_bbh", "meta_gpqa_cot", "meta_human_eval", "meta_ifeval"))})


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(whole_pack(tmp_path_factory), tmp_path_factory.mktemp("sample") / "work_dir"))


@pytest.fixture(scope="module")
def verified(sample: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any], dict[str, str]]:
    before = tree(sample)
    done = forked("verify", sample, "--json", *(f"--tasks={task}" for task in SOME), cwd=sample.parent)
    return done, json.loads(done.stdout), before


@pytest.fixture(scope="module")
def small_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of some tasks, which is read sooner than that of all."""
    tasks = (LETTERS, CHOICE, "meta_gpqa", "meta_gpqa_cot", "meta_bbh", "meta_math", "meta_ifeval")
    return prepare(tmp_path_factory.mktemp("few") / "work_dir", ",".join(tasks))


@pytest.fixture
def pack(small_pack: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_pack, tmp_path / "work_dir"))


def checked(pack: Path, task: str, **options: Any) -> TaskProof:
    """One task of a pack that a test may have edited."""
    return verify(pack, tasks=[task], edited=True, **options).tasks[task]


def lines(report: TaskProof) -> list[dict[str, Any]]:
    assert report.file is not None
    return [json.loads(line) for line in report.file.read_text(encoding="utf-8").split("\n") if line]


# The sample


@pytest.mark.parametrize("task", FEW)
def test_the_deliberate_disagreements_are_found_and_no_others(task: str, sample: Path, verified: Any) -> None:
    entry = read_manifest(sample).tasks[task]
    proof = verified[1]["tasks"][task]
    if entry.unsafe_code:
        assert proof["status"] == "not checked"
        return
    expected = set(embedded.read_tables()[f"{entry.model}-evals", entry.subset].disagreements)
    result = [json.loads(line) for line in Path(proof["file"]).read_text(encoding="utf-8").split("\n") if line]
    assert {line["question_hash"] for line in result} == expected
    assert len(result) == proof["disagreements"] == proof["total"]["ours_only"] + proof["total"]["theirs_only"]
    assert proof["total"]["docs"] == entry.docs


def table_heading(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("task "))


def test_the_command_line_says_it_in_eighty_columns_and_nothing_else(verified: Any) -> None:
    done, proof, _ = verified
    assert done.returncode == 1  # a dozen docs and a deliberate disagreement are below 0.99
    assert proof["passed"] is False
    below = sum(item["status"] == "below" for item in json.loads(done.stdout)["tasks"].values())
    of = len(json.loads(done.stdout)["tasks"])
    *_, counts, hint = done.stderr.rstrip().splitlines()
    assert counts.startswith(f"not passed: {below} of {of} tasks below")
    assert "of the embedded sample are wrong on purpose" in hint and "--min-agreement 0.8`" in hint
    assert "publ" not in table_heading(done.stderr), "invented docs have no published number"
    assert re.search(r"^meta_gpqa_cot +15 +46\.7 +40\.0 +93\.3 +1 +0 +5$", done.stderr, re.MULTILINE)
    assert re.search(r"^  boolean_expressions +6 +66\.7 +50\.0 ", done.stderr, re.MULTILINE)
    assert "below: meta_gpqa_cot: agreement 0.9333 (14 of 15 docs) is below 0.99" in done.stderr
    table = done.stderr[done.stderr.index("task ") : done.stderr.index("percent; ")]
    assert max(map(len, table.splitlines())) <= 80
    for noise in ("WARNING", "lm_eval", "fatal", "it/s", "Traceback"):
        assert noise not in done.stderr


def test_a_pack_is_never_changed(sample: Path, verified: Any) -> None:
    assert tree(sample) == verified[2]
    assert (find_verify_folder(sample) / ".gitignore").is_file()


def test_the_demo_passes_with_an_agreement_for_a_dozen_docs(small_pack: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        json.dumps(
            {"model_name": "m", "evals_dataset": "sample", "tasks": "meta_instruct", "work_dir": str(small_pack)}
        )
    )
    done = cli(
        "verify", "-c", "c.yaml", "--min-agreement", "0.8", "--tasks", "meta_gpqa,meta_bbh", "--tasks", LETTERS,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "passed: 3 of 3 tasks passed"
    assert (
        done.stderr.splitlines()[-1]
        == f"next: `meta-eval run {small_pack}`, or the lm_eval command, if prepare printed one"
    )
    done = cli("verify", small_pack.name, "--min-agreement", "0.8", "--tasks", LETTERS, cwd=small_pack.parent)
    assert f" disagreements are in {small_pack.name}.verify; " in done.stdout, (
        "below the working directory paths are short"
    )


def test_each_task_says_what_it_asks_for(sample: Path) -> None:
    tasks = read_manifest(sample).tasks
    assert (tasks["meta_math_hard"].primary_metric, tasks["meta_math_hard"].min_agreement) == ("final_em,none", 0.992)
    assert (tasks[LETTERS].graded_by, tasks[LETTERS].min_agreement) == ("program", 0.99)
    assert tasks["meta_ifeval"].primary_metric == "prompt_level_strict_acc,none"
    assert tasks["meta_ifeval"].is_correct_metric == "one_or_all_strict,none"
    assert tasks[LETTERS].is_correct_metric is None
    assert tasks[LETTERS].primary_metric == "exact_match,strict-match"
    assert tasks[CHOICE].primary_metric == "acc,none"


def test_what_is_no_verdict_is_compared_with_its_reading_and_shown_as_no_score(verified: Any) -> None:
    done, proof, _ = verified
    task = proof["tasks"]["meta_ifeval"]
    assert (task["primary_metric"], task["compared"]) == ("prompt_level_strict_acc,none", "one_or_all_strict,none")
    assert (task["total"]["agreement"], task["total"]["our_score"]) == (pytest.approx(16 / 18), None)
    assert task["their_score"] is None
    result = [json.loads(line) for line in Path(task["file"]).read_text(encoding="utf-8").splitlines()]
    assert {line["why"] for line in result} == {"reads otherwise"}
    assert "ifeval__strict: Meta's is_correct is no score; the column agree compares" in done.stderr


def test_the_score_is_the_published_metric_by_the_tasks_own_aggregation(sample: Path, verified: Any) -> None:
    task = verified[1]["tasks"]["meta_ifeval"]
    strict, loose = [], []
    for line in (REPOSITORY / "tests" / "golden" / "meta_ifeval.jsonl").read_text(encoding="utf-8").splitlines():
        both = json.loads(line)["mean_acc"]
        strict.append(both[0])
        loose.append(both[1])
    four = [sum(map(all, way)) / len(way) for way in (strict, loose)]
    four += [sum(map(sum, way)) / sum(map(len, way)) for way in (strict, loose)]
    assert (task["metric"], task["averaging"]) == ("mean_acc,none", "mean of four")
    assert task["our_score"] == pytest.approx(sum(four) / 4)
    assert f"{100 * task['our_score']:.1f}" in verified[0].stderr


def test_progress_counts_every_answer_under_every_filter(small_pack: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    verify(small_pack, tasks=["meta_gpqa"], progress=lambda *proof: seen.append(proof))
    assert seen[0] == ("meta_gpqa", 0, 0)
    assert seen[1:] == [("meta_gpqa", done, 30) for done in range(1, 31)]


# The chain, broken on purpose


def test_a_broken_regex_is_caught(pack: Path) -> None:
    edit(yaml_of(pack, LETTERS), "'best answer is ([A-Z])'", "'best option is ([A-Z])'")
    report = checked(pack, LETTERS)
    assert report.status == "below"
    assert report.tallies is not None
    assert report.tallies.total.unextracted == report.tallies.total.docs
    assert {line["why"] for line in lines(report)} == {"no match"}


def test_filters_in_the_wrong_order_are_caught(pack: Path) -> None:
    path = yaml_of(pack, LETTERS)
    head, marker, tail = path.read_text().partition("  - name: flexible-extract")
    take = "      - function: take_first\n"
    assert head.count(take) == 1
    path.write_text(head.replace(take, "").replace("    filter:\n", f"    filter:\n{take}") + marker + tail)
    report = checked(pack, LETTERS)
    assert report.status == "failed"  # the regex then gets letters instead of a text, and its lists reach the scorer
    assert "meta_mmlu_pro_instruct: process_results" in str(report.reason)


def test_a_wrong_gold_is_caught_in_its_doc(pack: Path) -> None:
    docs = read_docs(pack, "meta_gpqa")
    number = next(n for n, doc in enumerate(docs) if doc["recorded_is_correct"])
    before = {line["doc"] for line in lines(checked(pack, "meta_gpqa"))}
    docs[number]["gold"] = "D" if docs[number]["gold"] != "D" else "C"
    write_docs(pack, "meta_gpqa", docs)
    report = checked(pack, "meta_gpqa")
    assert report.status == "below"
    assert {line["doc"] for line in lines(report)} - before == {number}
    line = next(line for line in lines(report) if line["doc"] == number)
    assert (line["ours"], line["meta"], line["why"]) == (0.0, 1.0, "differs from gold")
    assert line["gold"] == docs[number]["gold"] != line["extracted"]
    assert line["question_hash"] == docs[number]["input_question_hash"]
    assert docs[number]["recorded_output"].endswith(line["output_tail"])


@pytest.mark.parametrize("column", ["gold", "recorded_output", "recorded_is_correct"])
def test_a_shuffled_column_is_caught(column: str, pack: Path) -> None:
    def shuffle(docs: list[Doc]) -> None:
        values = [doc[column] for doc in docs]
        random.Random(1).shuffle(values)
        for doc, value in zip(docs, values, strict=True):
            doc[column] = value

    edit_docs(pack, LETTERS, shuffle)
    assert checked(pack, LETTERS).status == "below"


@pytest.mark.parametrize("damage", ["shuffled", "truncated", "of another subset"])
def test_a_docs_file_that_prepare_did_not_write_is_refused(damage: str, pack: Path) -> None:
    path = pack / "meta_gpqa.parquet"
    if damage == "shuffled":
        write_docs(pack, "meta_gpqa", read_docs(pack, "meta_gpqa")[::-1], seal=False)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        shutil.copy(pack / "meta_gpqa_cot.parquet", path)
    report = verify(pack, tasks=["meta_gpqa", "meta_bbh"], min_agreement=0.5, edited=True)
    assert report.tasks["meta_gpqa"].status == "failed"
    assert "is not the file that was prepared" in str(report.tasks["meta_gpqa"].reason)
    assert report.tasks["meta_bbh"].status == "passed"
    assert (report.passed, report.exit_code) == (False, 2)


def test_a_docs_file_that_is_no_parquet_though_the_manifest_names_it_is_told_with_what_to_do(pack: Path) -> None:
    path = pack / "meta_gpqa.parquet"
    before = hash_file(path)
    path.write_bytes(path.read_bytes()[:-4] + b"none")
    edit(yaml_of(pack, "meta_gpqa"), before, hash_file(path))
    reseal(pack)
    reason = str(checked(pack, "meta_gpqa").reason)
    assert "magic bytes" in reason
    assert "`meta-eval prepare` again" in reason


def test_nothing_is_written_through_a_link_in_the_folder_of_verify(pack: Path, tmp_path: Path) -> None:
    folder = find_verify_folder(pack)
    (tmp_path / "mine").mkdir()
    folder.mkdir()
    (folder / "baseline").symlink_to(tmp_path / "mine")
    with pytest.raises(PackError, match=r"baseline: is a link, .* Delete it"):
        verify(pack, tasks=["meta_gpqa"], min_agreement=0)
    assert not list((tmp_path / "mine").iterdir())


@pytest.mark.parametrize("when", ["before", "edited"])
def test_a_file_that_verify_did_not_write_stays(when: str, pack: Path) -> None:
    file = find_verify_folder(pack) / "meta_gpqa.jsonl"
    if when == "edited":
        verify(pack, tasks=["meta_gpqa"], min_agreement=0)
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine\n")
    with pytest.raises(OutputError, match=r"meta_gpqa\.jsonl would be replaced, but was edited or added by hand"):
        verify(pack, tasks=["meta_gpqa"], min_agreement=0)
    assert file.read_text() == "mine\n"
    file.unlink()
    assert verify(pack, tasks=["meta_gpqa"], min_agreement=0).tasks["meta_gpqa"].status == "passed"


def test_verify_of_one_task_keeps_what_it_wrote_of_another(pack: Path) -> None:
    verify(pack, tasks=["meta_gpqa", CHOICE], min_agreement=0)
    before = tree(find_verify_folder(pack))
    verify(pack, tasks=["meta_gpqa"], min_agreement=0)
    assert tree(find_verify_folder(pack)) == before


def test_messages_name_places_as_seen_from_here(pack: Path) -> None:
    scorer = pack / "mmlu_pro" / "utils.py"
    scorer.write_text(scorer.read_text() + "\n\ndef process_results(doc, results):\n    raise ValueError('boom')\n")
    reseal(pack)
    done = forked("verify", pack.name, f"--tasks={LETTERS}", cwd=pack.parent)
    assert done.returncode == 2
    assert "fails with ValueError: boom" in done.stdout + done.stderr
    assert str(pack.parent) not in done.stdout + done.stderr
    for file in find_verify_folder(pack).rglob("*"):
        assert file.is_dir() or str(pack.parent) not in file.read_text()


@pytest.mark.parametrize("kept", [14, 0])
def test_docs_that_are_missing_or_all_gone_are_no_pass(kept: int, pack: Path) -> None:
    write_docs(pack, "meta_gpqa", read_docs(pack, "meta_gpqa")[:kept])
    report = verify(pack, tasks=["meta_gpqa"], min_agreement=0)
    assert report.tasks["meta_gpqa"].status == ("unfinished" if kept else "failed")
    assert report.exit_code != 0


def test_a_template_on_the_wrong_subset_is_caught(tmp_path: Path) -> None:
    """meta_gpqa expects answers that begin with the letter; Llama 3.1 recorded whole chains of thought."""
    templates = some_templates(tmp_path, "gpqa", "gpqa_cot")
    for name, family in (("gpqa_cot/gpqa_0shot_cot.yaml", "3.2"), ("gpqa/gpqa_0shot.yaml", "3.1")):
        path = templates / name
        path.write_text(re.sub(r"families: .*", f'families: ["{family}"]', path.read_text()))
    pack = prepare(tmp_path / "work_dir", "meta_gpqa", template_dir=str(templates))
    assert checked(pack, "meta_gpqa").status == "below"


def test_a_scorer_that_raises_is_named_with_the_doc(pack: Path) -> None:
    edit(pack / "_common" / "rows.py", "    extracted = results[0]\n", "    extracted = results[1]\n")
    report = checked(pack, "meta_gpqa")
    assert report.status == "failed"
    first = read_docs(pack, "meta_gpqa")[0]["input_question_hash"]
    assert re.search(rf"process_results, .*rows\.py, line \d+: fails with IndexError.*{first}", str(report.reason))


@pytest.mark.parametrize(
    ("error", "lacks", "todo"),
    [
        (
            "ValueError('##\\nexecutes untrusted code\\n>>> os.environ[\"HF_ALLOW_CODE_EVAL\"]')",
            "HF_ALLOW_CODE_EVAL=1 is not set",
            "--allow-code",
        ),
        (
            "LookupError('\\n***\\n  Resource punkt_tab not found.\\n')",
            "needs nltk's punkt_tab",
            "nltk.downloader punkt_tab",
        ),
    ],
)
@pytest.mark.parametrize("place", ["    extracted = results[0]\n", "from __future__ import annotations\n"])
def test_a_part_that_a_scorer_lacks_is_said_in_one_line_and_is_no_fault_of_it(
    pack: Path, place: str, error: str, lacks: str, todo: str
) -> None:
    indent = " " * (len(place) - len(place.lstrip()))
    edit(pack / "_common" / "rows.py", place, f"{place}{indent}raise {error}\n")
    reason = str(checked(pack, "meta_gpqa").reason)
    assert lacks in reason and todo in reason and "must not raise" not in reason and len(reason.splitlines()) == 1


def test_a_task_without_recorded_verdicts_is_not_a_pass(pack: Path) -> None:
    def forget(docs: list[Doc]) -> None:
        for doc in docs:
            doc["recorded_is_correct"] = None

    edit_docs(pack, "meta_gpqa", forget)
    report = verify(pack, tasks=["meta_gpqa"])
    assert report.tasks["meta_gpqa"].status == "not checked"
    assert report.exit_code == 1


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_recorded_metrics_that_are_no_json_object_fail_the_task(text: str, pack: Path) -> None:
    edit_docs(pack, "meta_gpqa", lambda docs: docs[0].update(recorded_metrics=text))
    assert "recorded_metrics is not a JSON object" in str(checked(pack, "meta_gpqa").reason)


def test_docs_without_an_answer_or_a_verdict_are_left_out_and_counted(pack: Path) -> None:
    def forget(docs: list[Doc]) -> None:
        docs[0]["recorded_output"] = None
        docs[1]["recorded_is_correct"] = None

    edit_docs(pack, "meta_gpqa", forget)
    report = checked(pack, "meta_gpqa")
    assert report.tallies is not None
    total = report.tallies.total
    assert (total.docs, total.compared, total.not_recorded) == (15, 13, 2)


def test_unknown_names_and_folders_are_told(small_pack: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'meta_ifeval'"):
        verify(small_pack, tasks=["meta_ifval"])
    with pytest.raises(PackError, match="is not a pack"):
        verify(tmp_path)
    done = cli("verify", tmp_path / "nowhere", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert cli("verify", small_pack, "--min-agreement", "95", cwd=tmp_path).returncode == 2


# Templates of one's own

OWN_YAML = """
include: ../_generative_yaml
task: meta_own
dataset_path: x
dataset_name: x
process_docs: !function utils.process_docs
process_results: !function utils.process_results
generation_kwargs: {until: [], do_sample: false, temperature: 0, max_gen_toks: 10}
metric_list:
  - {metric: f1, aggregation: mean, higher_is_better: true}
metadata:
  version: 1.0
  meta_eval: {subset: own, variants: [instruct], families: ["3.1"]%s}
"""
OWN_UTILS = """
import json, logging
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
_spec = spec_from_file_location(__file__, Path(__file__).resolve().parents[1] / "_common" / "load.py")
_spec.loader.exec_module(load := module_from_spec(_spec))
rows = load.module(".._common.rows")

process_docs = rows.docs_by(
    lambda row: {**rows.make_doc(row), "recorded_metrics": json.dumps(row["output_metrics"])}
)

def process_results(doc, results):
    if results[0] == "slow":
        logging.getLogger("meta_eval.own").warning("no verdict within 5 s")
        return {"f1": 0.0, "ungraded": 1.0}
    return {"f1": float(results[0]), "ungraded": 0.0}
"""


def own_pack(
    tmp_path: Path, rows: list[dict[str, Any]], *, spec: str = "", top: str = "", utils: str = OWN_UTILS
) -> Path:
    templates = some_templates(tmp_path)
    (templates / "own").mkdir()
    yaml = OWN_YAML % spec + top
    (templates / "own" / "own.yaml").write_text(yaml)
    (templates / "own" / "utils.py").write_text(utils)
    evals = tmp_path / "Llama-3.1-8B-Instruct-evals"
    write_rows(evals / "own.jsonl", rows)
    return prepare(tmp_path / "work_dir", "meta_own", evals_dataset=str(evals), template_dir=str(templates))


def own_row(output: str, **metrics: float) -> dict[str, Any]:
    return make_row(f"Question for {output} and {metrics}", output=output, output_metrics=metrics, correct=False)


def test_scores_that_are_no_yes_or_no_are_compared_with_the_recorded_ones(tmp_path: Path) -> None:
    pack = own_pack(
        tmp_path,
        [own_row("0.5", f1=0.5004), own_row("0.25", f1=0.5), own_row("1", f1=0.2), own_row("0.6", em=0.6)],
    )
    report = checked(pack, "meta_own")
    assert report.tallies is not None
    total = report.tallies.total
    assert report.tallies.compared_with == "recorded f1"
    assert (total.compared, total.agreed, total.graded_only, total.reference_only, total.not_recorded) == (
        3,
        1,
        1,
        1,
        1,
    )
    assert total.meta_score == pytest.approx((0.5004 + 0.5 + 0.2) / 3)
    assert [line["why"] for line in lines(report)] == ["other score", "other score"]
    assert lines(report)[0]["detail"] == "0.2500 here, 0.5000 there"


def test_a_thousandth_is_agreement(tmp_path: Path) -> None:
    near, far = 0.9 * SAME_VERDICT, 1.1 * SAME_VERDICT
    pack = own_pack(tmp_path, [own_row("0.5", f1=0.5 + near), own_row("0.25", f1=0.25 + far)])
    report = checked(pack, "meta_own")
    assert (report.status, {line["doc"] for line in lines(report)}) == ("below", {1})
    assert checked(pack, "meta_own", min_agreement=0.5).status == "passed"


def test_a_template_names_the_recorded_metric_and_the_agreement(tmp_path: Path) -> None:
    rows = [own_row("0.5", em=0.5), own_row("0.25", em=0.5)]
    report = checked(own_pack(tmp_path, rows, spec=", recorded_metric: em, min_agreement: 0.5"), "meta_own")
    assert (report.status, report.min_agreement) == ("passed", 0.5)


def test_why_a_grader_failed_stands_beside_its_doc(tmp_path: Path) -> None:
    report = checked(own_pack(tmp_path, [own_row("0.5", f1=0.5), own_row("slow", f1=1.0)]), "meta_own")
    assert [(line["doc"], line["why"], line["detail"]) for line in lines(report)] == [
        (1, "ungraded", "no verdict within 5 s")
    ]
    assert report.tallies is not None
    assert report.tallies.total.ungraded == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ('{"f1": 1.0, "answer": 1.0}', "returns the metric 'answer', the name of a field of every sample"),
        ('{"f1": 1.0, "doc": 1.0}', "returns the metric 'doc', the name of a field of every sample"),
        ('{"f1": 1.0, 1: 1.0}', "returns no metrics by name, but {'f1': 1.0, 1: 1.0}"),
        ("None", "returns no metrics by name, but None"),
    ],
)
def test_a_scorer_that_returns_no_metrics_of_names_of_their_own_is_refused(
    tmp_path: Path, returned: str, said: str
) -> None:
    utils = f"{OWN_UTILS}\ndef process_results(doc, results):\n    return {returned}\n"
    report = checked(own_pack(tmp_path, [own_row("1", f1=1.0)], utils=utils), "meta_own")
    assert report.status == "failed"
    assert f"meta_own: process_results: {said}" in str(report.reason)


def test_code_is_run_only_when_it_is_allowed(tmp_path: Path) -> None:
    pack = own_pack(tmp_path, [own_row("1", f1=1.0)], top="unsafe_code: true\n")
    refused = verify(pack)
    assert refused.tasks["meta_own"].status == "not checked"
    assert "--allow-code" in str(refused.tasks["meta_own"].reason)
    assert refused.exit_code == 1
    assert verify(pack, allow_code=True).exit_code == 0


def test_a_verdict_that_no_metric_gives_is_refused_with_the_template(tmp_path: Path) -> None:
    with pytest.raises(
        TemplateError, match="primary_metric: 'rouge,none' is not a metric and filter.*Metrics: f1; filters: none"
    ):
        own_pack(tmp_path, [own_row("1", f1=1.0)], spec=", primary_metric: 'rouge,none'")


# For any recorded answers, verify is the graders by hand


def template_module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"by_hand_{name}", TEMPLATES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def letters_by_hand(doc: Doc) -> dict[str, Any]:
    matches = re.findall("best answer is ([A-Z])", doc["recorded_output"] or "")
    scores: dict[str, Any] = template_module("mmlu_pro/utils").process_results(
        doc, [matches[-1] if matches else "[invalid]"]
    )
    return {"right": scores["exact_match"], "unextracted": bool(scores["unextracted"])}


def math_by_hand(doc: Doc) -> dict[str, Any]:
    scores: dict[str, Any] = MATH.process_results(doc, [doc["recorded_output"] or ""])
    return {"right": scores["exact_match"], "unextracted": bool(scores["unextracted"])}


def choice_by_hand(doc: Doc) -> dict[str, Any]:
    recorded = doc["recorded_negative_log_likelihoods"] or [None] * 4
    pairs = [(-value if value is not None else math.nan, False) for value in recorded]
    return {"right": template_module("_common/choices").process_results(doc, pairs)["acc"], "unextracted": None}


MATH = template_module("math_hard/utils")
LETTER_OUTPUTS = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.builds("{}The best answer is {}{}".format, st.text(max_size=9), st.sampled_from("ABCDEFGHIJKa(*"), st.text(max_size=9)),
)  # fmt: skip
MATH_OUTPUTS = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.builds(
        r"It is $\boxed{{{}}}${}".format,
        st.sampled_from(["66", "66.0", r"\frac{1}{2}", "0.5", r"\dfrac12", "x", ""]),
        st.text(max_size=5),
    ),
)
LIKELIHOODS = st.one_of(st.none(), st.lists(st.none() | st.sampled_from([0.25, 1.0, 3.5]), min_size=4, max_size=4))


@pytest.mark.parametrize(
    ("task", "column", "values", "by_hand"),
    [
        (LETTERS, "recorded_output", LETTER_OUTPUTS, letters_by_hand),
        ("meta_math", "recorded_output", MATH_OUTPUTS, math_by_hand),
        (CHOICE, "recorded_negative_log_likelihoods", LIKELIHOODS, choice_by_hand),
    ],
)
def test_verify_equals_the_graders_by_hand(
    task: str, column: str, values: st.SearchStrategy[Any], by_hand: Callable[[Doc], dict[str, Any]],
    pack: Path,
) -> None:  # fmt: skip
    docs = read_docs(pack, task)

    # Each example is an answer and a verdict for each of some fifteen docs.
    @settings(max_examples=12 if THOROUGH else 5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        answers=st.lists(values, min_size=len(docs), max_size=len(docs)),
        verdicts=st.lists(st.none() | st.booleans(), min_size=len(docs), max_size=len(docs)),
    )
    def holds(answers: list[Any], verdicts: list[bool | None]) -> None:
        for doc, answer, verdict in zip(docs, answers, verdicts, strict=True):
            doc[column], doc["recorded_is_correct"] = answer, verdict
        write_docs(pack, task, docs)
        report = checked(pack, task, min_agreement=1.0)
        assert report.tallies is not None
        total = report.tallies.total
        scored = [by_hand(doc) for doc in docs]
        whole = [answer is not None and (column == "recorded_output" or None not in answer) for answer in answers]
        differ = {
            number
            for number, (scored_sample, verdict) in enumerate(zip(scored, verdicts, strict=True))
            if whole[number] and verdict is not None and scored_sample["right"] != verdict
        }
        assert total.graded == sum(scored_sample["right"] for scored_sample in scored)
        assert {line["doc"] for line in lines(report)} == differ
        assert total.graded_only == sum(bool(scored[number]["right"]) for number in differ)
        if column == "recorded_output":
            assert total.unextracted == sum(scored_sample["unextracted"] for scored_sample in scored)
        assert (report.status == "passed") == (not differ and total.compared > 0)

    holds()


# A finished run, graded again


@pytest.fixture(scope="module")
def finished(small_pack: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lm-eval itself writes, the replay model in the engine's place."""
    tasks = [LETTERS, CHOICE, "meta_math", "meta_ifeval"]
    return run_lm_eval(small_pack, tasks, tmp_path_factory.mktemp("finished"), model_name="my/model")


def samples_of(out: Path, task: str) -> Path:
    return next(out.rglob(f"samples_{task}_*.jsonl"))


def test_the_same_graders_give_a_finished_run_the_same_verdicts(small_pack: Path, finished: Path) -> None:
    report = verify(small_pack, tasks=[LETTERS, CHOICE, "meta_math"], regrade=finished)
    assert report.exit_code == 0
    for name, proof in report.tasks.items():
        assert proof.tallies is not None
        assert proof.tallies.total.agreement == 1.0, name
    total = report.tasks[LETTERS].tallies
    assert total is not None
    assert total.total.like_meta == 13  # of 15: the sample's two deliberate disagreements
    assert report.tasks[LETTERS].file is not None
    assert (
        report.tasks[LETTERS].file.parent
        == find_verify_folder(small_pack, regraded=True)
        != find_verify_folder(small_pack)
    )


def test_a_finished_run_is_graded_again_verdict_by_verdict_and_its_reading_compared_with_metas(
    small_pack: Path, finished: Path
) -> None:
    report = checked(small_pack, "meta_ifeval", regrade=finished)
    assert report.status == "passed"
    assert report.tallies is not None
    assert report.tallies.metric == "prompt_level_strict_acc,none"
    assert report.tallies.total.like_meta == 16  # of 18: the sample's two deliberate disagreements


def test_other_graders_show_where_they_differ_from_the_finished_run(pack: Path, finished: Path) -> None:
    edit(yaml_of(pack, LETTERS), "'best answer is ([A-Z])'", "'best option is ([A-Z])'")
    report = checked(pack, LETTERS, regrade=finished)
    assert report.status == "below"
    assert report.tallies is not None
    total = report.tallies.total
    assert (total.graded, total.reference, total.reference_only) == (0, 8, 8)
    assert {(line["ours"], line["saved"], line["why"]) for line in lines(report)} == {(0.0, 1.0, "no match")}


def test_saved_answers_are_graded_and_not_the_recorded_ones(pack: Path, finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    path = samples_of(out, LETTERS)
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for saved in samples:
        saved["resps"] = [[f"The best answer is {saved['doc']['gold']}."]]
    path.write_text("".join(json.dumps(saved) + "\n" for saved in random.Random(1).sample(samples, len(samples))))
    tallies = checked(pack, LETTERS, regrade=out).tallies
    assert tallies is not None
    assert tallies.total.graded_score == 1.0
    assert tallies.total.graded_only == tallies.total.docs - tallies.total.reference


def test_a_run_over_some_docs_is_unfinished(small_pack: Path, finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    for task in (LETTERS, CHOICE):
        whole = samples_of(out, task).read_text(encoding="utf-8").splitlines(keepends=True)
        some = [line for line in whole if json.loads(line)["doc_id"] in (1, 4, 5, 9)]
        samples_of(out, task).write_text("".join(some), encoding="utf-8")
    next(out.rglob("results_*.json")).unlink()
    report = verify(small_pack, tasks=[LETTERS, CHOICE], regrade=out)
    assert report.exit_code == 1
    for proof in report.tasks.values():
        assert proof.status == "unfinished"
        assert proof.tallies is not None
        assert (proof.tallies.total.docs, proof.tallies.total.agreed) == (4, 4)


def test_a_samples_file_that_is_cut_off_names_its_line(small_pack: Path, finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    path = samples_of(out, LETTERS)
    path.write_bytes(path.read_bytes()[:-50])
    report = checked(small_pack, LETTERS, regrade=out)
    assert report.status == "failed"
    assert f"{path}, line 30: is not JSON, and ends the file: it is cut off" in str(report.reason)


def test_damage_is_damage_to_report_and_to_regrade_alike(small_pack: Path, finished: Path, tmp_path: Path) -> None:
    """One reader: a blank line is none, a doc that stands there twice with another answer is refused by both."""
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    path = samples_of(out, LETTERS)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\n")
    assert checked(small_pack, LETTERS, regrade=out).status == "passed"
    again = json.loads(whole.splitlines()[0])
    path.write_bytes(whole + json.dumps(again | {"resps": [["Another answer."]]}).encode() + b"\n")
    report = checked(small_pack, LETTERS, regrade=out)
    assert report.status == "failed"
    with pytest.raises(ResultsError) as caught:
        read_run([path])
    assert str(report.reason) == str(caught.value)


def test_the_runs_of_two_models_are_not_graded_as_one(small_pack: Path, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name, task in (("a", LETTERS), ("b", CHOICE)):
        shutil.copytree(finished, out / name)
        samples_of(out / name, task).unlink()
    path = next((out / "b").rglob("results_*.json"))
    path.write_text(path.read_text(encoding="utf-8").replace("my/model", "my/other"), encoding="utf-8")
    with pytest.raises(ResultsError, match="from 2 models"):
        verify(small_pack, tasks=[LETTERS, CHOICE], regrade=out)


def test_the_samples_of_another_pack_are_refused(pack: Path, finished: Path) -> None:
    docs = read_docs(pack, LETTERS)
    write_docs(pack, LETTERS, docs[1:] + docs[:1])
    report = checked(pack, LETTERS, regrade=finished)
    assert report.status == "failed"
    assert "is not doc" in str(report.reason)


def test_of_two_runs_the_newest_is_graded_and_said(small_pack: Path, finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "out"))
    older = samples_of(out, "meta_math").with_name("samples_meta_math_2024-01-01T00-00-00.000000.jsonl")
    older.write_text("cut off")
    with noted() as notes:
        report: Proof = verify(small_pack, tasks=["meta_math"], regrade=out)
    assert report.exit_code == 0
    assert len(notes) == 1
    assert str(samples_of(finished, "meta_math").name) in notes[0]


def test_a_folder_without_samples_is_told(small_pack: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="holds no samples file"):
        verify(small_pack, regrade=tmp_path)


def test_every_template_names_a_verdict_that_it_scores() -> None:
    for name, template in shipped().tasks.items():
        metric, _, under = template.primary_metric.partition(",")
        assert metric in template.metrics, name
        assert under in template.filters, name
