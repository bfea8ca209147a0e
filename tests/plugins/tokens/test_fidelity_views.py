"""A fidelity report: what it says of two tables, in every view."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from command import cli
from fake_model import FakeClient, model_folder
from forced_tables import HEADER, answer, drawn, moved, table
from packs import prepare
from reports import write_html
from rich.console import Console
from runs import write_run
from tokenizers import Tokenizer, models

from meta_eval.base.errors import UserError
from meta_eval.doctor.known_answers import find_model_folder as known_model_folder
from meta_eval.judge.token_table import Choices, find_choices_path, write_choices
from meta_eval.plugins.tokens.api import fidelity_report
from meta_eval.plugins.tokens.fidelity_build import build_fidelity_report
from meta_eval.plugins.tokens.fidelity_report import FidelityReport
from meta_eval.reports import markdown, terminal

HOSTILE = "</style><script>alert(1)</script>\u202e|*x*"


def tokenizer() -> Tokenizer:
    words = {f"w{number}": number for number in range(60)} | {HOSTILE: 11, "w11": 60}
    return Tokenizer(models.WordLevel(words, unk_token="w0"))


def two(tmp_path: Path, size: float = 0.2) -> FidelityReport:
    before = drawn(30, 20)
    after = moved(before, size)
    # The second token of the first answer, which is hostile, is not the likeliest.
    after[0] = answer(0, after[0].logprobs - 2, [0.0, 1.5, *[0.0] * 18])
    first, second = table(tmp_path / "a.parquet", before), table(tmp_path / "b.parquet", after)
    table(tmp_path / "again" / "a.parquet", moved(before, 0.01, seed=2))
    return build_fidelity_report(second.path, baseline=first.path, tokenizer=tokenizer(), exit_follows_decision=True)


def printed(report: FidelityReport) -> str:
    out = io.StringIO()
    terminal.show_document(report.document(), Console(file=out, width=80, markup=False))
    return out.getvalue()


def test_every_view_has_the_verdict_and_its_numbers(tmp_path: Path) -> None:
    report = two(tmp_path)
    write_html(tmp_path / "page.html", report)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (report.exit_code, report.to_json()["comparison"]["outcome"]) == (1, "different")
    distance = f"{report.comparison.all.distance.value:.3f}" if report.comparison else ""
    for view in (page, markdown.render(report.document()), printed(report), report.summary):
        assert "different" in view and distance in view
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["comparison"]["all"]["distance"]["docs"] == 30
    assert all(len(line) <= 80 for line in printed(report).splitlines())


def test_a_page_shows_the_first_divergence_and_the_copys_own_word(tmp_path: Path) -> None:
    report = two(tmp_path)
    write_html(tmp_path / "page.html", report)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = next(part for part in report.answers if part.doc == 0)
    assert [(token.shade, token.top_token, token.diverges) for token in shown.tokens[:3]] == [
        (0, None, False), (3, "w12", True), (0, None, False),
    ]  # fmt: skip
    assert 'class="t m3 diverges"' in page and "<rt>w12" in page


def test_what_a_tokenizer_says_is_harmless(tmp_path: Path) -> None:
    report = two(tmp_path)
    write_html(tmp_path / "page.html", report)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(1)" in page and "<script" not in page and "\u202e" not in page
    assert page.count("</style>") == 1


def test_what_was_said_before_a_change_is_whole_text(tmp_path: Path) -> None:
    made = Tokenizer.from_file(str(known_model_folder() / "tokenizer.json"))
    ids = np.array(made.encode("Grüße aus Köln", add_special_tokens=False).ids, np.int32)
    assert len(ids) > 8, "characters are cut through by tokens"
    tables = []
    for name, gap in (("a", 0.0), ("b", 1.5)):
        margins = [0.0] * (len(ids) - 1) + [gap]
        tables.append(table(tmp_path / f"{name}.parquet", [answer(0, [-1.0 - gap] * len(ids), margins, token_ids=ids)]))
    change = build_fidelity_report(tables[1].path, baseline=tables[0].path, tokenizer=made).changes[-1]
    assert change.context in "Grüße aus Köln" and "ü" in change.context


def test_without_a_tokenizer_there_are_ids(tmp_path: Path) -> None:
    answers = table(tmp_path / "a.parquet", drawn(3, 4))
    report = fidelity_report(answers.path)
    assert [token.text for token in report.answers[0].tokens] == ["#10", "#11", "#12", "#13"]
    assert (report.comparison, report.exit_code) == (None, 0)
    assert "these numbers have no verdict" in " ".join(printed(report).split())
    write_html(tmp_path / "page.html", report)
    assert "shown by their ids" in (tmp_path / "page.html").read_text(encoding="utf-8")


def of_choices(path: Path, size: float, docs: int = 40) -> Path:
    """A table of a base model: choices alone, off by some nats from one and the same."""
    rng = np.random.default_rng(0)
    rows = []
    for doc in range(docs):
        recorded = rng.normal(-3, 1, 4).astype(np.float32)
        ours = recorded + rng.normal(0, size, 4).astype(np.float32)
        rows.append(Choices("meta_arc", doc, f"{doc:064d}", ours, recorded, int(recorded.argmax())))
    write_choices(find_choices_path(path), HEADER, rows)
    return path


def test_choices_stand_beside_the_recorded_ones(tmp_path: Path) -> None:
    report = fidelity_report(of_choices(tmp_path / "b.parquet", 0.1))
    assert report.figures == () and report.choices[0].mean_difference.value == pytest.approx(0.08, abs=0.02)
    assert "the best choice is the same in" in report.summary
    texts = table(tmp_path / "a.parquet", drawn(3, 4))
    with pytest.raises(UserError, match="holds only choices, and the baseline holds none"):
        fidelity_report(tmp_path / "b.parquet", baseline=texts.path)


@pytest.mark.parametrize(("size", "outcome", "code"), [(0.001, "same", 0), (0.2, "different", 1)])
def test_the_choices_of_two_copies_are_compared_as_numbers(
    tmp_path: Path, size: float, outcome: str, code: int
) -> None:
    (tmp_path / "base").mkdir()
    of_choices(tmp_path / "base" / "a.parquet", 0)
    copy = of_choices(tmp_path / "b.parquet", size)
    (tmp_path / "gate.yaml").write_text("fidelity: {margin: 0.02}\n")
    report = fidelity_report(copy, baseline=tmp_path / "base", gate=tmp_path / "gate.yaml")
    assert (report.outcome, report.exit_code, report.comparison) == (outcome, code, None)
    assert report.choice_comparison is not None
    assert report.choice_comparison.all.distance.value == pytest.approx(size * np.sqrt(2 / np.pi), rel=0.15)
    write_html(tmp_path / "page.html", report)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for view in (page, markdown.render(report.document()), printed(report), report.summary):
        assert outcome in view and f"{report.choice_comparison.all.distance.value:.3f}"[:5] in view


def test_choices_count_beside_texts(tmp_path: Path) -> None:
    for name, size in (("a", 0.0), ("b", 0.2)):
        of_choices(table(tmp_path / f"{name}.parquet", drawn(30, 20)).path, size)
    report = fidelity_report(tmp_path / "b.parquet", baseline=tmp_path / "a.parquet")
    assert report.comparison is not None and report.choice_comparison is not None
    assert (report.comparison.outcome, report.choice_comparison.outcome, report.outcome) == (
        "same",
        "different",
        "different",
    )


def no_engine(patch: pytest.MonkeyPatch) -> None:
    made = type("Client", (FakeClient,), {"asked": [], "made": []})
    patch.setattr("meta_eval.plugins.tokens.token_scoring.find_client", lambda *_backend, **_keys: made)
    patch.setattr("meta_eval.ask.client.ROUNDS", (0, 0, 0))


@pytest.fixture(scope="module")
def asked_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pack that was asked, its table copied as a baseline."""
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        no_engine(patch)
        patch.chdir(folder)
        model_folder(folder / "m")
        pack = prepare(folder / "work_dir", "meta_mmlu_pro_instruct", model_name="m", limit=8)
        done = cli("fidelity", str(pack), "--output", "out", "--json")
    assert done.returncode == 0, done.stderr
    (folder / "base.parquet").write_bytes((folder / json.loads(done.stdout)["table"]).read_bytes())
    return folder


@pytest.fixture
def asked(asked_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack that was asked, where the test is."""
    shutil.copytree(asked_once, tmp_path, dirs_exist_ok=True)
    no_engine(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "work_dir"


def test_the_command_compares_and_its_gate_decides(asked: Path, tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("fidelity: {margin: 0.05, min_docs: 5}\n")
    same = cli(
        "fidelity", str(asked), "--output", "out", "--no-ask", "--baseline", "base.parquet", "--gate", "gate.yaml",
        "--html", "page.html", "--markdown", "page.md", "--json",
    )  # fmt: skip
    assert same.returncode == 0, same.stderr
    report = json.loads(same.stdout)["report"]
    assert (report["comparison"]["outcome"], report["comparison"]["margin"], report["exit_follows_decision"]) == (
        "same",
        0.05,
        True,
    )
    assert (
        "<h1>m beside m (" in (tmp_path / "page.html").read_text()
        and "Fidelity: m" in (tmp_path / "page.md").read_text()
    )
    (tmp_path / "gate.yaml").write_text("fidelity: {min_docs: 5000}\n")
    few = cli(
        "fidelity", str(asked), "--output", "out", "--no-ask", "--baseline", "base.parquet", "--gate", "gate.yaml"
    )
    assert few.returncode == 3 and "at least 5000 are needed" in " ".join((few.stdout + few.stderr).split())


def test_a_copy_is_not_compared_with_itself(asked: Path) -> None:
    done = cli("fidelity", str(asked), "--output", "out", "--no-ask", "--baseline", "out")
    assert done.returncode == 2
    assert "is this run's own table" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--margin", "0.1"], "--margin: needs a baseline to compare with. Name its table: --baseline FILE"),
        (["--baseline", "nowhere.parquet"], "nowhere.parquet: cannot be read"),
        (["--baseline", "empty"], "empty: holds no table of tokens. Name a table of the log-probabilities of tokens"),
        (["--baseline", "base.parquet", "--margin", "0"], "--margin: 0 is not a number of nats above 0 and below 100"),
        (["--baseline", "base.parquet", "--gate", "gate.yaml"], "fidelity.margn: there is no such key; did you mean 'margin'?"),
        (["--baseline", "base.parquet", "--html", "base.parquet"], "base.parquet"),
        (["--html", "base.parquet"], "base.parquet: is no output of this kind that meta-eval wrote"),
        (["--html", "page.html", "--shard", "0/2"], "--html: needs the answers of all shards"),
    ],
)  # fmt: skip
def test_mistakes_are_said_before_anything_is_asked(
    asked: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "gate.yaml").write_text("fidelity: {margn: 0.05}\n")
    (tmp_path / "empty").mkdir()
    done = cli("fidelity", str(asked), "--output", "out2", *options)
    assert done.returncode == 2
    assert message.replace(" ", "") in "".join(done.stderr.split()), done.stderr
    assert not (tmp_path / "out2").exists()


def test_a_page_does_not_replace_the_table_that_its_own_command_writes(asked: Path, tmp_path: Path) -> None:
    table_made = min((tmp_path / "out" / "fidelity").glob("*.parquet"))
    name, before = table_made.relative_to(tmp_path), table_made.read_bytes()
    table_made.unlink()
    done = cli("fidelity", str(asked), "--output", "out", "--no-ask", "--html", name)
    assert done.returncode == 2 and f"{name}:isnooutputofthiskind" in "".join(done.stderr.split())
    assert table_made.read_bytes() == before


@pytest.mark.parametrize("what", ["text", "half", "empty", "pipe"])
@pytest.mark.parametrize("name", ["m.parquet", "m.choices.parquet"])
def test_a_report_says_which_table_it_cannot_read_and_goes_on(tmp_path: Path, name: str, what: str) -> None:
    tables = write_run(tmp_path / "out", [True, False, True]) / "fidelity"
    tables.mkdir()
    table(tables / "m.parquet", drawn(3, 4))
    of_choices(tables / "m.parquet", 0.1)
    table(tables / "other.parquet", drawn(3, 4))
    content = {"text": b"no table", "half": (tables / name).read_bytes()[:-40], "empty": b"", "pipe": b""}[what]
    (tables / name).write_bytes(content)
    if what == "pipe":
        (tables / name).unlink()
        os.mkfifo(tables / name)
    done = cli("report", "out", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["fidelity"]) == 1
    told = " ".join(done.stderr.split())
    assert f"out/fidelity/{name} is left out: " in told and "Make it again, or move it away" in told


def test_a_report_shows_the_tables_that_lie_beside_its_results(tmp_path: Path) -> None:
    write_run(tmp_path / "out", [True, False, True])
    (tmp_path / "out" / "fidelity").mkdir()
    table(tmp_path / "out" / "fidelity" / "m.parquet", drawn(3, 4))
    of_choices(tmp_path / "out" / "fidelity" / "base.parquet", 0.1)
    done = cli(
        "report",
        str(tmp_path / "out"),
        "--json",
        "--html",
        str(tmp_path / "r.html"),
        "--markdown",
        str(tmp_path / "r.md"),
    )
    assert done.returncode == 0, done.stderr
    of_base, after = json.loads(done.stdout)["fidelity"]
    assert (after["model"], after["figures"][0]["tokens"]) == ("my/model", 12)
    assert (of_base["figures"], of_base["choices"][0]["docs"]) == ([], 40)
    assert "fidelity of my/model: 100.00 % of 12 tokens" in " ".join(done.stderr.split())
    assert "How likely it finds the recorded answers" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "fidelity of my/model: 100.00 % of 12 tokens" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "log-likelihoods of the choices of 40 docs" in (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "choices of</th>" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("lost", [0, 1])
def test_a_copy_may_have_docs_that_the_other_lacks(lost: int, tmp_path: Path) -> None:
    """Of all docs of a kind too: here of those behind long prompts."""
    both = [*drawn(20, 20), *(answer(100 + n, [-0.1] * 20, prompt_tokens=9000) for n in range(5))]
    sides = [both, moved(both, 0.1)]
    sides[lost] = sides[lost][:20]
    before, after = (table(tmp_path / f"{n}.parquet", side) for n, side in enumerate(sides))
    report = build_fidelity_report(after.path, baseline=before.path)
    write_html(tmp_path / "page.html", report)
    assert printed(report) and markdown.render(report.document()) and report.to_json()


@pytest.mark.parametrize("column", ["doc", "token_ids"])
def test_a_doubled_column_is_named(column: str, tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", drawn(3, 5)).path
    with pq.ParquetFile(path) as file:
        rows, words = file.read(), file.metadata.metadata
    rows = rows.append_column(rows.schema.field(column), rows.column(column))
    with pq.ParquetWriter(path, rows.schema) as out:
        out.write_table(rows)
        out.add_key_value_metadata({b"meta_eval": words[b"meta_eval"]})
    with pytest.raises(UserError, match=f"has the column {column} twice"):
        build_fidelity_report(path)
