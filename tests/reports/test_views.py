"""A report on the terminal, as Markdown, for the hub, as JSON and as a page: the same facts, and foreign texts harmless."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, hostile_samples, make_comparison, make_report, make_samples, published, score, write_html
from rich.console import Console

from meta_eval.base.display import visible
from meta_eval.base.outputs import OutputError, replace_file
from meta_eval.judge.alarm_kinds import AlarmOccurrence
from meta_eval.judge.decision import CutSummary, TaskDecision
from meta_eval.reports import eval_results, markdown, terminal
from meta_eval.reports.plot import Plot, make_plot
from meta_eval.reports.report import Report
from meta_eval.reports.samples import CHUNK_SAMPLES, pack_samples
from meta_eval.reports.task_tables import make_drop_table, make_score_table
from meta_eval.reports.text import (
    MINUS,
    format_drop,
    format_interval,
    format_p_value,
    format_percent,
    format_points,
    shorten_names,
)

TEXTS = st.text(st.characters(codec=None), max_size=40)


def printed(report: Report, width: int = 80) -> str:
    out = StringIO()
    terminal.show_document(report.document(), Console(file=out, width=width, color_system=None))
    return out.getvalue()


def drawn_of(report: Report) -> Plot:
    return make_plot(report, make_drop_table(report), make_score_table(report))


def lines_of(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


# Texts and numbers


@pytest.mark.parametrize(
    ("share", "written"), [(0.004, "+0.4"), (-0.0123, "\u22121.2"), (0.0004, "0.0"), (-0.0004, "0.0"), (None, "-")]
)
def test_points_have_a_sign_unless_they_are_nought(share: float | None, written: str) -> None:
    assert format_points(share) == written
    assert format_drop(share) == written.removeprefix("+")


def test_numbers_that_are_not_there_are_a_dash() -> None:
    assert (format_percent(None), format_interval(None), format_p_value(None), format_p_value(0.0004)) == (
        "-",
        "-",
        "-",
        "<0.001",
    )


def test_what_hides_or_reorders_text_is_written_by_its_number() -> None:
    assert visible("a\u202eb\x00\ud83d") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+D83D⟩"
    assert visible("क\u200dष 👩\u200d🔬 tab\tline\n") == "क\u200dष 👩\u200d🔬 tab\tline\n"


@given(TEXTS)
def test_visible_text_can_always_be_written_and_hides_nothing_more(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert visible(shown) == shown


def test_subtasks_lose_what_all_begin_with() -> None:
    assert shorten_names(["mmlu.law", "mmlu.math"]) == {"mmlu.law": "law", "mmlu.math": "math"}
    assert shorten_names(["mmlu.law", "other"]) == {"mmlu.law": "mmlu.law", "other": "other"}


# The terminal


def test_the_terminal_says_everything_within_80_columns_and_without_colour() -> None:
    text = printed(make_report())
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(rf"meta_mmlu_pro_instruct +within margin +50\.0 +49\.6 +0\.4 +{MINUS}0\.1 to 1\.0 +0\.\d", text)
    assert re.search(r"meta_math_hard +worse +25\.0 +21\.0 +4\.0 +2\.\d to 5\.\d +\d\.\d", text)
    assert re.search(r"meta_math +undecided +- +- +- +- +-", text)
    assert re.search(
        rf"meta_mmlu_pro_instruct macro +12,032 +47\.9 +47\.0 to 48\.8 +48\.3 +{MINUS}0\.4 +{MINUS}0\.4", text
    )
    assert re.search(r"weighted mean +DON'T SHIP +0\.6 +", text)


def test_the_decision_comes_first_then_its_table_and_then_what_went_wrong() -> None:
    text = printed(make_report())
    assert text.splitlines()[1].startswith("DON'T SHIP: mean drop of 3 tasks")
    first_row, second_table = text.index("50.0 49.6"), text.index("Beside the published numbers")
    for trouble in (
        "! not run. There is no result",
        "limit hit: meta_mmlu_pro_instruct (31 of 12,032)",
        "212 of",
        "2 runs are",
    ):
        assert first_row < text.index(trouble) < second_table


def test_an_alarm_is_one_line_for_any_number_of_tasks() -> None:
    report = make_report()
    alarm = dataclasses.replace(
        report.alarms[0], tasks=tuple(AlarmOccurrence(f"meta_{number}") for number in range(57))
    )
    text = printed(dataclasses.replace(report, alarms=(alarm,)))
    assert " ".join(text.split()).count("There is no result of these tasks") == 1
    assert "meta_0, meta_1, meta_2, meta_3, meta_4, meta_5 and 51 more" in " ".join(text.split())
    assert "meta_56" in markdown.render(dataclasses.replace(report, alarms=(alarm,)).document())


def test_what_a_task_is_compared_with_is_said_with_what_is_missing() -> None:
    text = " ".join(printed(make_report()).split())
    assert "meta_mmlu_pro_instruct, meta_math_hard: compared with Meta's recorded answers, graded by the pack" in text
    assert (
        "compared with the published number alone; verify has not been run on this task: run `meta-eval verify`" in text
    )


@pytest.mark.parametrize("make", [make_report, make_comparison])
def test_the_weight_of_each_task_stands_in_every_view(make: Callable[[], Report], tmp_path: Path) -> None:
    """MMLU-Pro has nine tenths of the mean, and a reader sees it without reading JSON."""
    report = make()
    task = report.tasks[0]
    assert task.is_decided
    share = f"{100 * task.weight:.0f} %"
    write_html(tmp_path / "page.html", report)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert any(line.endswith(share) for line in lines_of(printed(report), task.name))
    assert f"| {share} |" in markdown.render(report.document())
    assert f'data-label="weight">{share}</td>' in page
    assert report.to_json()["tasks"][0]["drop"]["weight"] == task.weight


def test_margins_of_tasks_and_other_weights_stand_in_every_view(tmp_path: Path) -> None:
    report = make_report()
    decision = dataclasses.replace(report.decision, weights="docs")
    first = report.tasks[0]
    wide = dataclasses.replace(first, margin=0.034)
    decision = dataclasses.replace(decision, tasks=(wide, *decision.tasks[1:]))
    report = dataclasses.replace(report, decision=decision, tasks=(wide, *report.tasks[1:]))
    write_html(tmp_path / "page.html", report)
    page, text = (tmp_path / "page.html").read_text(encoding="utf-8"), printed(report)
    assert max(map(len, text.splitlines())) <= 80
    assert any(" 3.4 " in line for line in lines_of(text, first.name))
    assert "mean over docs" in text
    assert "and of each task its margin. The weight is a task's share of the mean over docs" in " ".join(text.split())
    assert "| 3.4 |" in markdown.render(report.document())
    assert 'data-label="margin">3.4</td>' in page
    tree = report.to_json()
    assert (tree["decision"]["weights"], tree["tasks"][0]["drop"]["margin"]) == ("docs", 0.034)


def test_the_distance_of_the_baseline_stands_apart_with_its_reason() -> None:
    text = " ".join(printed(make_report()).split())
    assert f"meta_math_hard: the baseline scores 25.0, {MINUS}0.4 from the published 25.4: Meta asked a judge" in text


def test_tasks_of_which_the_same_is_to_be_said_share_a_line() -> None:
    report = make_report()
    math = report.tasks[-1]
    both = dataclasses.replace(report, tasks=(math, dataclasses.replace(math, name="meta_other")))
    assert lines_of(printed(both), "undecided: meta_math, meta_other: it was measured with 0 shots")


def test_a_comparison_shows_flips_and_recovery() -> None:
    text = printed(make_comparison())
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"meta_math_hard +worse +25\.0 +21\.0 +4\.0 +2\.\d to 5\.\d +84\.0 %", text)
    assert re.search(r"meta_math_hard +1,324 +89\.8 % +94 +41", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_terminal_shows_foreign_text_as_text(text: str) -> None:
    shown = printed(make_report(name=f"[red]{text}[/red]"), width=300)
    assert f"[red]{visible(text)}[/red]" in shown
    assert "\x1b" not in shown


# Markdown


def test_markdown_holds_the_decision_the_drops_the_scores_and_the_provenance() -> None:
    text = markdown.render(make_report().document())
    assert text.splitlines()[2].startswith("**DON'T SHIP**: mean drop of 3 tasks")
    assert re.search(
        r"\| `meta_math_hard` \| worse \| 1,324 \| 25\.0 \| 21\.0 \| \*\*4\.0\*\* \| 2\.\d to 5\.\d \| <0\.001 \| \d\.\d \|",
        text,
    )
    assert f"| `meta_math_hard` | 1,324 | **21.4** | 19.2 to 23.6 | 25.4 | {MINUS}4.0 |" in text
    assert "| `meta_math` | 5,000 | **46.1** | 44.7 to 47.5 | - | - |" in text
    assert "Not comparable: it was measured with 0 shots." in text
    assert "- engine: vllm 0.10.2" in text


def test_every_table_in_markdown_has_as_many_cells_in_each_row() -> None:
    report = make_report()
    odd = dataclasses.replace(report, tasks=(dataclasses.replace(report.tasks[0], name="a|b`c\nd"), *report.tasks[1:]))
    for shown_report in (odd, make_comparison()):
        tables = re.findall(r"(?:^\|.*\n)+", markdown.render(shown_report.document()), re.MULTILINE)
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    assert len(tables) >= 3


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_gives_foreign_text_no_markup(text: str) -> None:
    shown = markdown.render(make_report(name=text).document()).splitlines()[0].removeprefix("## Evaluation: ")
    assert not re.search(r"(?<!\\)[<>`*|\[\]]", shown)
    assert re.sub(r"\\(?=[^\w\s])", "", shown) == visible(" ".join(text.split()))


def test_no_name_is_markup_in_a_folded_part_of_markdown_either() -> None:
    """Markdown takes the line of a summary as HTML, in which a backslash escapes nothing."""
    report = make_comparison()
    runs = (report.runs[0], dataclasses.replace(report.runs[1], model="<img src=x>&#64;me"))
    shown = markdown.render(dataclasses.replace(report, runs=runs).document())
    assert "&lt;img src=x&gt;&amp;#64;me" in (line := next(line for line in shown.splitlines() if "<summary>B" in line))
    assert "<img" not in line


# The hub's format


def test_the_hubs_own_reader_takes_the_file() -> None:
    from huggingface_hub import parse_eval_result_entries

    text = eval_results.render(make_report().document())
    (entry,) = parse_eval_result_entries(yaml.safe_load(text))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("TIGER-Lab/MMLU-Pro", "mmlu_pro", 46.6)
    assert "5-shot; micro average; 95 % interval 45.7 to 47.5; lm-eval 0.4.13" in str(entry.notes)
    assert "# meta_math_hard is left out: its dataset is not registered as a benchmark on the hub" in text


def test_a_benchmark_that_was_not_run_to_its_end_is_left_out() -> None:
    report = make_report()
    cut = dataclasses.replace(report, tasks=(dataclasses.replace(report.tasks[0], docs=100),))
    assert yaml.safe_load(eval_results.render(cut.document())) == []
    assert "100 docs were scored, and the benchmark has 12,032" in eval_results.render(cut.document())


# JSON


def test_json_holds_the_decision_the_exit_code_and_shares() -> None:
    tree = json.loads(json.dumps(make_report(exit_follows_decision=True).to_json(), allow_nan=False))
    assert (tree["schema_version"], tree["exit_code"], tree["decision"]["outcome"]) == (3, 1, "DON'T SHIP")
    assert make_report().exit_code == 0
    math = tree["tasks"][1]
    assert (math["scores"][0]["value"], math["outcome"]) == (0.214, "worse")
    assert math["drop"]["value"] == pytest.approx(53 / 1324)
    assert math["drop"]["interval"]["lower"] < math["drop"]["value"] < math["drop"]["interval"]["upper"]
    assert [(alarm["kind"], alarm["veto"]) for alarm in tree["alarms"]][-1] == ("nothing extracted", False)
    assert tree["runs"][0]["provenance"]["lm-eval"] == "0.4.13"


# The plot


def test_the_plot_shows_each_drop_beside_0_and_its_margin() -> None:
    drawn = drawn_of(make_report())
    rows = {mark.row.name: mark for mark in drawn.marks}
    math, ifeval, mean = rows["meta_math_hard"], rows["meta_ifeval"], rows["weighted mean"]
    assert drawn.zero is not None and math.margin is not None and math.x is not None and ifeval.x is not None
    assert ifeval.x < drawn.zero < math.margin < math.x
    assert rows["meta_math"].x is None
    assert mean.row.outcome == "DON'T SHIP"
    places = [place for row in drawn.marks for place in (row.low, row.high) if place is not None]
    assert all(0 <= place <= 100 for place in places)
    assert [tick.label for tick in drawn.ticks if tick.x == drawn.zero] == ["0"]
    two = next(tick.x for tick in drawn.ticks if tick.label == "2")
    assert math.margin - drawn.zero == pytest.approx((two - drawn.zero) / 2, abs=0.02)


def test_without_anything_to_compare_with_the_plot_is_of_scores() -> None:
    alone = score(0.4, 0.1, 50, published(0.5), reason="it is not comparable")
    task = TaskDecision("meta_some", "some", 50, 50, scores=(alone,))
    drawn = drawn_of(dataclasses.replace(make_report(), tasks=(task,)))
    assert (drawn.zero, drawn.marks[0].x, drawn.marks[0].low, drawn.marks[0].high) == (None, 40.0, 30.0, 50.0)


# The page


class Page(HTMLParser):
    """What a browser would make of a page: elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self._inside = dict(attrs)
            self.scripts.append((self._inside, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.text += data
        else:
            self.scripts[-1] = (self._inside, self.scripts[-1][1] + data)


def written(folder: Path, report: Report, samples: object = ()) -> tuple[str, Page]:
    write_html(folder / "page.html", report, samples)  # type: ignore[arg-type]
    text = (folder / "page.html").read_text(encoding="utf-8")
    return text, Page(text)


def test_every_view_has_the_scores_with_and_without_the_answers_that_were_cut(tmp_path: Path) -> None:
    report = make_report()
    cut = CutSummary("exact_match,strict-match", 31, 12032, 0.466, 0.4712, 0.473)
    none_left = dataclasses.replace(cut, docs=1324, of=1324, without=None, baseline=None)
    tasks = [dataclasses.replace(task, cut=cut) for task, cut in zip(report.tasks, (cut, none_left), strict=False)]
    report = dataclasses.replace(report, tasks=(*tasks, *report.tasks[2:]))
    sentences = (
        "31 of 12,032 answers cut. Score: 46.6 with them, 47.1 without (baseline 47.3)",
        "1,324 of 1,324 answers cut. Score: 46.6 with them",
    )
    page = written(tmp_path, report)[1].text
    for shown in (markdown.render(report.document()), page):
        assert all(words in " ".join(shown.split()) for words in sentences)
    together = "Answers that are cut or empty: meta_mmlu_pro_instruct 31 of 12,032; meta_math_hard 1,324 of 1,324."
    assert together in " ".join(printed(report).split())
    tree = report.to_json()["tasks"]
    assert tree[0]["cut"] == {"metric": cut.metric, "docs": 31, "of": 12032, "score": 0.466, "without": 0.4712,
                              "baseline": 0.473, "as_wrong": None, "baseline_docs": None, "more": None, "drop": None,
                              "drop_as_wrong": None, "drop_without": None, "docs_without": 0,
                              "counted": "graded", "thinking": 0, "baseline_thinking": None,
                              "empty": 0, "baseline_empty": 0}  # fmt: skip
    assert tree[2]["cut"] is None


def test_a_page_asks_the_network_for_nothing_and_runs_one_script(tmp_path: Path) -> None:
    _, page = written(tmp_path, make_report(exit_follows_decision=True), hostile_samples())
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    running = [code for attributes, code in page.scripts if "type" not in attributes]
    digest = base64.b64encode(hashlib.sha256(running[0].encode()).digest()).decode()
    assert len(running) == 1
    assert policy and policy.startswith("default-src 'none'") and f"script-src 'sha256-{digest}'" in policy
    for _, attributes in page.elements:
        assert not {"src", "style", "action", "srcset", "data"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert str(attributes.get("href", "#")).startswith("#")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The elements of a page."""
    return [tag for tag, _ in written(tmp_path_factory.mktemp("plain"), make_report())[1].elements]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_escapes_what_stands_outside_the_samples(tmp_path: Path, text: str, plain: list[str]) -> None:
    page = written(tmp_path, make_report(name=text))[1]
    assert [tag for tag, _ in page.elements] == plain
    assert visible(text) in page.text


def test_the_first_screen_of_a_page_states_no_fact_twice(tmp_path: Path) -> None:
    write_html(tmp_path / "page.html", make_comparison())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    top, _, rest = page.partition('<section id="decision"')
    box = rest.partition("</section>")[0]
    margin, plot = "<dt>margin</dt><dd>1.0</dd>", rest.partition('<table class="plot">')[2].partition("</table>")[0]
    assert margin in box and "1.0 point" not in box
    assert "plain mean" in plot and "plain mean" not in box
    assert "compared with run A" not in page
    assert top.count('<h1 class="hidden">') == 1


def test_samples_come_back_whole_from_the_chunks(tmp_path: Path) -> None:
    samples = [*hostile_samples(), *make_samples(2 * CHUNK_SAMPLES, 100)]
    _, page = written(tmp_path, make_report(), samples)
    index, *chunks = (
        json.loads(gzip.decompress(base64.b64decode(text))) for attributes, text in page.scripts if "type" in attributes
    )
    texts = [text for chunk in chunks for text in chunk]
    assert [text["prompt"] for text in texts] == [sample.prompt for sample in samples]
    assert [text["answers"][0]["text"] for text in texts] == [sample.answers[0].text for sample in samples]
    assert index["doc"] == [sample.doc for sample in samples]
    assert [index["tasks"][number] for number in index["task"]] == [sample.task for sample in samples]
    assert index["starts"] == [sum(map(len, chunks[:number])) for number in range(len(chunks))]
    assert max(map(len, chunks)) <= CHUNK_SAMPLES


def test_a_huge_text_has_a_chunk_of_its_own() -> None:
    (sample,) = make_samples(1, 100)
    huge = dataclasses.replace(sample, prompt="x" * 5_000_000)
    packed = pack_samples([sample, huge, sample])
    assert len(list(packed.chunks())) == 2
    packed.close()


def test_the_same_report_makes_the_same_page(tmp_path: Path) -> None:
    first, _ = written(tmp_path, make_report(), make_samples(300, 500))
    two, _ = written(tmp_path, make_report(), make_samples(300, 500))
    assert first == two


# Files


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_html(path, make_report(), make_samples(3, 100))
    old = path.read_text()

    def samples() -> object:
        yield from make_samples(3, 100)
        raise RuntimeError("the run is still being written")

    with pytest.raises(RuntimeError):
        write_html(path, make_report(), samples())  # type: ignore[arg-type]
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("page.html", old)]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match="Make its folder first: mkdir -p"),
        replace_file(tmp_path / "no" / "x.md"),
    ):
        pass
    with pytest.raises(OutputError, match="folder"), replace_file(tmp_path):
        pass
