"""The page in a real browser: it shows what it should, finds what one looks for, and runs nothing that a model wrote."""

from __future__ import annotations

import csv
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import pytest
from reports import HOSTILE, hostile_samples, lost_and_won, made, make_comparison, make_report, make_samples

from meta_eval.judge.alarm_kinds import Alarm, AlarmOccurrence
from meta_eval.judge.decision import TaskDecision
from meta_eval.reports.document import ShownAnswer, ShownSample
from meta_eval.reports.report import Report

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

COUNT = 600
ROWS = ".rowgroup .row"


@pytest.fixture
def page(show: Show) -> Page:
    opened = show(make_report(), make_samples(COUNT, 800))
    opened.wait_for_selector(ROWS)
    return opened


@pytest.fixture(params=["light", "dark", "narrow"])
def look(request: pytest.FixtureRequest, show: Show) -> Iterator[Page]:
    options: dict[str, object] = {"color_scheme": "dark" if request.param == "dark" else "light"}
    if request.param == "narrow":
        options["viewport"] = {"width": 390, "height": 844}
    opened = show(make_report(), make_samples(50, 400), **options)
    opened.wait_for_selector(ROWS)
    yield opened


def sample(text: str, recorded: str, *, doc: int = 0, task: str = "a_task", verdict: float = 1.0) -> ShownSample:
    """One sample with these two answers."""
    return ShownSample(
        task,
        None,
        doc,
        f"{doc:064x}",
        f"Question {doc}",
        "a prompt",
        "gold",
        (ShownAnswer(verdict, text, None),),
        0.0,
        recorded,
    )


def comparison() -> Report:
    report = make_comparison()
    return replace(
        report,
        runs=tuple(replace(run, folder=f"runs/{name}") for run, name in zip(report.runs, ("bf16", "fp8"), strict=True)),
    )


def many_tasks(count: int) -> Report:
    """A report of many tasks, each of which raises two alarms, and every fifth of which has lost much."""
    names = [f"task_{number}" for number in range(count)]
    drops = {name: lost_and_won(80 if number % 5 == 0 else 21, 20, 1000, 0.5) for number, name in enumerate(names)}
    decision, tasks = made(
        tuple(TaskDecision(name, name, 1000, 1000, baseline_label="a baseline") for name in names), drops
    )
    raised = tuple(AlarmOccurrence(name, None, 3, 1000) for name in names)
    alarms = (
        Alarm("empty answers", "They are empty.", "empty", raised),
        Alarm("limit hit", "Cut off.", "limit hit", raised),
    )
    return replace(make_report(), decision=decision, tasks=tasks, alarms=alarms)


def shown(page: Page, count: int, total: int = COUNT) -> None:
    """Wait until so many samples are shown."""
    page.wait_for_selector(f"#status:text-is('{count:,} of {total:,} samples')")


def cells(page: Page, row: int = 0) -> list[str]:
    return page.locator(ROWS).nth(row).locator("[role=gridcell]").all_inner_texts()


def selected(page: Page) -> str:
    """The doc of the row that assistive technology is told to be the active one."""
    active = page.locator("#grid").get_attribute("aria-activedescendant")
    row = page.locator(f"[id='{active}']")
    assert row.get_attribute("aria-selected") == "true"
    return row.locator("[role=gridcell]").first.inner_text()


# What people see


def test_the_decision_comes_first_and_alarms_are_folded(page: Page) -> None:
    titles = [title.strip() for title in page.locator("h2").all_inner_texts()]
    assert titles[:3] == ["DON'T SHIP", "Alarms", "What is lost"]
    assert "not run: meta_gpqa_cot." in page.locator("#decision .reasons").inner_text()
    assert page.locator(".alarms details[open]").count() == 0
    assert page.locator(".alarms .veto summary").first.inner_text().replace("\n", " ").startswith("not run")


def test_each_outcome_has_a_shape_of_its_own(page: Page) -> None:
    used = page.eval_on_selector_all("td.chart use", "all => all.map(one => one.getAttribute('href'))")
    assert {"#holds", "#below"} <= set(used) <= {"#holds", "#below", "#unknown"}


def test_fifty_seven_tasks_leave_the_decision_on_top(show: Show) -> None:
    """Alarms of every task take a line a kind, and the tables of tasks narrow to a name or an outcome."""
    page = show(many_tasks(57), make_samples(57, 400), viewport={"width": 400, "height": 850})
    assert page.locator("#tasks").bounding_box()["y"] < 1600  # type: ignore[index]
    page.fill("#task-filter", "task_5")
    assert page.locator("#task-count").inner_text() == "8 tasks here and below"
    assert page.locator("#tasks [data-task-row]:visible").count() == 8
    page.fill("#task-filter", "")
    page.click("[data-outcome='worse']")
    assert page.locator("#tasks [data-task-row]:visible").all_inner_texts()[0].startswith("task_")
    assert page.locator("#tasks [data-task-row]:visible").count() == page.locator("[data-task-outcome='worse']").count()


def test_a_and_b_are_tied_to_their_folders(show: Show) -> None:
    page = show(comparison(), make_samples(20, 400, answers=2))
    assert page.locator(".runs div").all_inner_texts()[1].split() == ["B", "Llama-3.1-8B-FP8", "runs/fp8"]
    assert page.locator(".who-is-who").inner_text().split("\n") == ["A · bf16", "B · fp8"]
    page.locator(ROWS).first.click()
    titles = page.locator("#pane h4").all_inner_texts()
    assert titles[0].startswith("Answer, A · bf16 · ") and titles[1].startswith("Answer, B · fp8 · ")
    assert page.locator("[data-column=second] button[title='B · fp8']").inner_text() == "B"


def test_nothing_is_wider_than_the_window(look: Page) -> None:
    assert look.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "state", ["", "sample=meta_math_hard/18", "view=characters", "q=nothing", "task=meta_math_hard"]
)
def test_every_state_of_a_comparison_fits_a_phone(show: Show, state: str, scheme: str) -> None:
    page = show(
        comparison(), make_samples(20, 4000, answers=2), viewport={"width": 400, "height": 850}, color_scheme=scheme
    )
    page.evaluate("hash => { location.hash = hash }", state)
    page.wait_for_timeout(200)
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(_CONTRAST) == []


WIDTHS = (360, 768, 1024, 1100, 1440, 1920)


def with_long_names(report: Report) -> Report:
    """Every name that comes from a file has 4,000 letters."""
    name = "n" * 4000
    parts = tuple(replace(part, name=f"{name}{number}") for number, part in enumerate(report.tasks[0].subtasks))
    tasks = (replace(report.tasks[0], name=name, subtasks=parts), *report.tasks[1:])
    runs = tuple(replace(run, model=name, folder=f"/{name}", provenance=((name, name),)) for run in report.runs)
    alarms = tuple(replace(alarm, tasks=(AlarmOccurrence(name, None, 1, 2),)) for alarm in report.alarms)
    decision = replace(report.decision, reasons=(f"{name}: lost",))
    return replace(
        report, title=name, tasks=tasks, runs=runs, alarms=alarms, notes=(name,), decision=decision, group_averages=()
    )


@pytest.mark.parametrize("make", [make_report, make_comparison])
@pytest.mark.parametrize("width", WIDTHS)
def test_names_of_any_length_widen_no_window(show: Show, width: int, make: Callable[[], Report]) -> None:
    report = make()
    answers = 2 if report.document_type == "compare" else 1
    samples = [replace(entry, task="n" * 4000, subtask="s" * 4000) for entry in make_samples(5, 400, answers=answers)]
    page = show(with_long_names(report), samples, viewport={"width": width, "height": 900})
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    heights = page.evaluate("[...document.querySelectorAll('h1, .plot tr')].map(one => one.offsetHeight)")
    assert max(heights) < 400


@pytest.mark.parametrize("make", [make_report, make_comparison])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_plot_has_room_and_no_label_lies_on_another(show: Show, width: int, make: Callable[[], Report]) -> None:
    page = show(make(), viewport={"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    widths = page.evaluate("[...document.querySelectorAll('td.chart > svg')].map(one => one.clientWidth)")
    assert min(widths) >= 200
    boxes = page.evaluate(
        "[...document.querySelectorAll('.tick')].map(one => one.getBoundingClientRect()).map(one => [one.left, one.right])"
    )
    assert all(before[1] < after[0] for before, after in pairwise(boxes))
    cells = page.evaluate(
        """[...document.querySelectorAll('.plot tbody tr')].map(row => [...row.children].map(one => {
            const box = one.getBoundingClientRect(); return [box.left, box.right, box.top, box.bottom]; }))"""
    )
    for row in cells:
        for left, other in combinations(row, 2):
            assert (
                left[1] <= other[0] + 1 or other[1] <= left[0] + 1 or left[3] <= other[2] + 1 or other[3] <= left[2] + 1
            )


def test_text_stands_out_from_its_ground(look: Page) -> None:
    """The contrast of WCAG 2.2, success criterion 1.4.3, for every element that holds text itself."""
    poor = look.evaluate(_CONTRAST)
    assert poor == []


def test_the_theme_can_be_chosen(page: Page) -> None:
    grounds = []
    for _ in range(3):
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.click("#theme")
    assert grounds[0] == grounds[2] != grounds[1]


def test_without_samples_there_is_no_table(show: Show) -> None:
    assert "without samples" in show(make_report()).locator("#samples").inner_text()


def test_a_report_is_read_without_javascript(show: Show) -> None:
    page = show(make_report(), make_samples(5, 100), java_script_enabled=False)
    assert "mean drop of 3 tasks" in page.locator("#decision").inner_text()
    assert page.locator("noscript").is_visible()


# Finding samples


def test_search_finds_by_question(page: Page) -> None:
    page.fill("#search", "question 123:")
    shown(page, 1)
    assert cells(page)[0] == "123"


def test_deep_search_finds_what_stands_in_a_prompt_alone(show: Show) -> None:
    samples = list(make_samples(COUNT, 800))
    samples[432] = replace(samples[432], prompt="a Needle in it")
    page = show(make_report(), samples)
    page.fill("#search", "needle in")
    shown(page, 0)
    page.check("#deep")
    shown(page, 1)
    assert cells(page)[0] == "432"


def test_filters_narrow_one_another(page: Page) -> None:
    samples = list(make_samples(COUNT, 800))
    page.select_option("#task", "meta_math_hard")
    of_task = [entry for entry in samples if entry.task == "meta_math_hard"]
    shown(page, len(of_task))
    page.select_option("#first", "right")
    shown(page, sum(entry.answers[0].verdict == 1 for entry in of_task))
    page.select_option("#second", "none")
    shown(page, sum(entry.answers[0].verdict == 1 and entry.recorded_verdict is None for entry in of_task))
    page.click("button[type=reset]")
    shown(page, COUNT)


def test_flips_are_found_both_ways(page: Page) -> None:
    pairs = [(entry.answers[0].verdict, entry.recorded_verdict) for entry in make_samples(COUNT, 800)]
    ours, theirs = pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0))
    page.click("text=only ours right >> nth=-1")
    shown(page, ours)
    page.click("text=only Meta's right >> nth=-1")
    shown(page, ours + theirs)


def test_an_alarm_leads_to_its_samples(page: Page) -> None:
    page.click(".alarms summary >> text=nothing extracted")
    page.click("text=show them >> nth=1")
    flagged = [entry for entry in make_samples(COUNT, 800) if entry.task == "meta_math_hard" and entry.answers[0].flags]
    shown(page, sum("unextracted" in entry.answers[0].flags for entry in flagged))
    assert page.evaluate("document.activeElement.id") == "grid"


def test_a_number_of_flips_leads_to_its_samples(page: Page) -> None:
    link = page.locator("#flips [data-task-row=meta_math_hard] a").first
    assert link.get_attribute("href") == "#task=meta_math_hard&only=first+only"
    link.click()
    pairs = [
        (entry.answers[0].verdict, entry.recorded_verdict)
        for entry in make_samples(COUNT, 800)
        if entry.task == "meta_math_hard"
    ]
    shown(page, pairs.count((1.0, 0.0)))


def test_flags_of_two_runs_are_told_apart(show: Show) -> None:
    page = show(comparison(), make_samples(COUNT, 400, answers=2))
    samples = list(make_samples(COUNT, 400, answers=2))
    for label, which in (("A", 0), ("B", 1)):
        page.click(f"button:has-text('{label}: unextracted')")
        shown(page, sum("unextracted" in entry.answers[which].flags for entry in samples))
        page.click("button[type=reset]")


def test_nothing_found_is_said(page: Page) -> None:
    page.fill("#search", "no such words")
    shown(page, 0)
    assert page.locator("#nothing").inner_text() == "No sample matches."
    assert page.locator("[data-export]:not([disabled])").count() == 0


def test_a_heading_sorts_both_ways(page: Page) -> None:
    page.click("[role=columnheader] >> text=doc")
    assert cells(page)[0] == "0"
    page.click("[role=columnheader] >> text=doc")
    assert cells(page)[0] == str(COUNT - 1)
    assert page.locator("[aria-sort=descending]").inner_text().startswith("doc")


# One sample


def test_a_click_opens_the_sample_with_its_special_tokens(page: Page) -> None:
    page.locator(ROWS).nth(7).click()
    page.wait_for_selector("#pane pre")
    assert "doc 7" in page.locator("#pane-title").inner_text()
    tokens = page.locator("#pane .token").all_inner_texts()
    assert tokens.count("<|eot_id|>") == 1 and "<|start_header_id|>" in tokens
    sample = list(make_samples(COUNT, 800))[7]
    assert page.locator("#pane pre").nth(2).inner_text() == sample.prompt


def test_both_answers_of_a_comparison_stand_side_by_side(show: Show) -> None:
    page = show(make_comparison(), make_samples(20, 400, answers=2))
    page.locator(ROWS).nth(1).click()
    page.wait_for_selector(".answers.two pre")
    boxes = [answer.bounding_box() for answer in page.locator(".answers.two pre").all()]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]


def test_what_is_of_one_side_alone_says_whose_it_is(show: Show) -> None:
    first = sample("It is 35.", "")
    answers = (
        ShownAnswer(0.0, "It is 36.", "36", ("other prompt",), metrics={"exact_match,strict": 0.0}),
        ShownAnswer(1.0, "It is 35.", "35", ("other prompt",), metrics={"exact_match,strict": 1.0, "length,strict": 9}),
    )
    page = show(comparison(), [replace(first, answers=answers, recorded_verdict=None, recorded_text=None)])
    heading = page.locator("[data-column=extracted] button")
    assert (heading.inner_text(), heading.get_attribute("title")) == ("B: extracted", "B · fp8")
    assert page.locator(f"{ROWS} > :nth-child(6)").inner_text() == "35"
    page.locator(ROWS).first.click()
    page.wait_for_selector("#pane pre")
    facts = dict(zip(*(page.locator(f".outcome {part}").all_inner_texts() for part in ("dt", "dd")), strict=True))
    assert (facts["extracted, A"], facts["extracted, B"]) == ("36", "35")
    assert not any("recorded" in name for name in facts), "nothing was recorded"
    titles, texts = (page.locator(f"#pane {part}").all_inner_texts() for part in ("h4", "pre"))
    assert titles[2].startswith("Prompt, A · bf16")
    assert texts[3] == "exact_match,strict: A 0.0 · B 1.0\nlength,strict: A - · B 9"


def test_the_recorded_answer_stands_beside_ours_with_the_difference_marked(show: Show) -> None:
    page = show(make_report(), [sample("One river <|eot_id|>runs far.\u200b", "One stone <|eot_id|>runs far.")])
    page.locator(ROWS).first.click()
    page.wait_for_selector("#pane mark.first")
    ours, recorded = page.locator(".answers.two pre").all()
    assert ours.locator("mark").all_inner_texts() == ["river", "U+200B"]
    assert recorded.locator("mark").all_inner_texts() == ["stone"]
    assert ours.locator(".token").inner_text() == "<|eot_id|>" and ours.locator("mark .alien").count() == 1
    assert "1 word only in ours" in page.locator("#pane .told").inner_text()
    page.click("text=mark the difference")
    page.wait_for_selector("#pane mark", state="detached")
    assert "beside=plain" in page.url


def test_equal_and_overlong_answers_say_why_nothing_is_marked(show: Show) -> None:
    page = show(make_report(), [sample("same", "same"), sample("x " * 30_000, "y", doc=1)])
    for doc, words in ((0, "the same, letter for letter"), (1, "longer than 40,000 characters")):
        page.locator(ROWS).nth(doc).click()
        page.wait_for_selector(f"#pane .told:has-text('{words}')")
        assert page.locator("#pane mark").count() == 0


def test_a_difference_is_true_and_its_work_is_bounded(show: Show) -> None:
    """What is not marked is the same on both sides; of two texts with nothing in common too, in a second."""
    chance = random.Random(3)
    words = ["river", "stone", "engine", "a", "the", ".", "<|eot_id|>", "\n", "\u200b", "\ud83d\ude00"]
    pairs = [
        (" ".join(chance.choices(words, k=k)), " ".join(chance.choices(words[:m], k=n)))
        for k, n, m in ((1, 1, 2), (30, 28, 10), (400, 300, 10), (5500, 5500, 3), (0, 9, 9))
    ]
    pairs.append(
        (
            "".join(chr(0x4E00 + 2 * n) + "," for n in range(9000)),
            "".join(chr(0x4E01 + 2 * n) + ";" for n in range(9000)),
        )
    )
    page = show(make_report(), [sample(a or " ", b or " ", doc=doc) for doc, (a, b) in enumerate(pairs)])
    for doc in range(len(pairs)):
        begun = time.monotonic()
        page.locator(ROWS).nth(doc).click()
        page.wait_for_selector(f"#pane-title:has-text('doc {doc}')")
        page.wait_for_selector("#pane .answers.two pre")
        assert time.monotonic() - begun < 3  # 0.2 s alone; the machine of the tests is shared
        left, right = page.eval_on_selector_all(
            ".answers.two pre",
            """all => all.map(pre => [...pre.childNodes].filter(n => n.nodeName !== "MARK").map(n => n.textContent).join(""))""",
        )
        assert left == right


def test_long_common_texts_are_not_marked(show: Show) -> None:
    body = " ".join(f"word{number}" for number in range(2500))
    page = show(make_report(), [sample(f"first {body} middle {body[:5000]}", f"other {body} {body[:5000]} end")])
    page.locator(ROWS).first.click()
    page.wait_for_selector("#pane mark")
    assert [mark.strip() for mark in page.locator("#pane pre mark.first").all_inner_texts()] == ["first", "middle"]
    assert [mark.strip() for mark in page.locator("#pane pre mark.second").all_inner_texts()] == ["other", "end"]


def test_a_comparison_shows_any_two_of_three_answers(show: Show) -> None:
    page = show(comparison(), make_samples(20, 400, answers=2))
    page.locator(ROWS).first.click()
    page.click("text=B | the record's")
    page.wait_for_selector(".answers.two h4:has-text('record')")
    titles = page.locator(".answers.two h4").all_inner_texts()
    assert titles[0].startswith("Answer, B · fp8") and titles[1].startswith("the record's answer")
    assert page.url.endswith("&beside=second")


def test_tokens_and_limit_are_said_where_they_are_known(show: Show) -> None:
    known = sample("a b c", "a b")
    page = show(
        make_report(), [replace(known, answers=(replace(known.answers[0], tokens=3, limit=1024),), recorded_tokens=2)]
    )
    page.locator(ROWS).first.click()
    page.wait_for_selector("#pane h4")
    assert "5 characters · 3 of 1,024 tokens" in page.locator("#pane h4").nth(0).inner_text()
    assert "3 characters · 2 tokens" in page.locator("#pane h4").nth(1).inner_text()


# The address


def test_the_address_holds_the_whole_state(show: Show) -> None:
    page = show(comparison(), make_samples(COUNT, 800, answers=2))
    page.select_option("#task", "meta_mmlu_pro_instruct")
    page.select_option("#first", "right")
    page.click("text=only A right >> nth=-1")
    page.fill("#search", "question 1")
    page.click("[role=columnheader] >> text=doc")
    page.click("[role=columnheader] >> text=doc")
    page.click("#show-lengths")
    page.wait_for_selector("#lengths svg")
    page.locator(ROWS).nth(2).click()
    page.wait_for_selector("#pane pre")
    address, rows, title = page.url, page.locator(ROWS).all_inner_texts()[:5], page.locator("#pane-title").inner_text()
    again = page.context.new_page()
    again.goto(address)
    again.wait_for_selector("#pane pre")
    assert again.locator(ROWS).all_inner_texts()[:5] == rows
    assert again.locator("#pane-title").inner_text() == title
    assert (again.input_value("#search"), again.input_value("#first")) == ("question 1", "right")
    assert again.locator("#lengths svg").count() > 0
    assert again.url == address


def test_the_back_button_takes_back_one_step(page: Page) -> None:
    page.select_option("#task", "meta_math_hard")
    shown(page, 60)
    page.locator(ROWS).nth(1).click()
    page.wait_for_selector("#pane pre")
    page.click("[aria-label='Next sample']")
    page.wait_for_selector("#pane-title:has-text('doc 542')")
    page.go_back()
    page.wait_for_selector("#pane", state="hidden")
    shown(page, 60)
    page.go_back()
    shown(page, COUNT)
    assert page.input_value("#task") == ""
    page.go_forward()
    shown(page, 60)


@pytest.mark.parametrize("name", ["meta_math_hard/545", f"meta_math_hard/{545:064x}"[:80]])
def test_a_sample_is_linked_by_doc_or_hash(show: Show, name: str) -> None:
    samples = [replace(entry, question_hash=entry.question_hash[::-1]) for entry in make_samples(COUNT, 400)]
    wanted = name if "/0" not in name else f"meta_math_hard/{samples[545].question_hash}"
    page = show(make_report(), samples)
    page.evaluate("hash => { location.hash = hash }", f"sample={wanted}")
    page.wait_for_selector("#pane-title:has-text('doc 545')")
    page.evaluate("location.hash = 'sample=meta_math_hard/99999'")
    page.wait_for_selector("#pane", state="hidden")
    assert "not in this page" in page.locator("#said").inner_text()


def test_links_are_copied(show: Show) -> None:
    page = show(make_report(), make_samples(COUNT, 400), permissions=["clipboard-read", "clipboard-write"])
    page.select_option("#task", "meta_math_hard")
    page.locator(ROWS).nth(3).click()
    page.wait_for_selector("#pane pre")
    page.click("#pane >> text=Copy link")
    page.wait_for_selector("#said:has-text('Copied')")
    assert page.evaluate("navigator.clipboard.readText()").endswith("#sample=meta_math_hard/543")
    page.click("#copy-filter")
    page.wait_for_selector("#said:has-text('filter')")
    assert page.evaluate("navigator.clipboard.readText()").endswith("#task=meta_math_hard")


def test_a_sample_is_copied_as_markdown_that_its_texts_cannot_leave(show: Show) -> None:
    fenced = sample("```\n# no heading\n````", "b", task="meta_math_hard")
    page = show(make_report(), [fenced], permissions=["clipboard-read", "clipboard-write"])
    page.locator(ROWS).first.click()
    page.wait_for_selector("#pane pre")
    page.click("text=Copy as Markdown")
    page.wait_for_selector("#said:has-text('Copied')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("### meta\\_math\\_hard · doc 0\n")
    assert "`````text\n```\n# no heading\n````\n`````" in copied


# Lengths and files


def test_lengths_are_drawn_and_a_bar_filters(show: Show) -> None:
    texts = ["a" * 5] * 3 + ["b" * 30] * 2 + ["c" * 31]
    samples = [sample(text, "d" * 200, doc=doc, verdict=float(doc < 4)) for doc, text in enumerate(texts)]
    page = show(make_report(), samples)
    page.click("#show-lengths")
    captions = page.locator("#lengths figcaption").all_inner_texts()
    assert captions[0] == "ours 6 answers: median 5 (right 5, wrong 30), nine in ten at most 31, longest 31 characters"
    assert captions[1].startswith("Meta's, recorded 6 answers: median 200")
    page.locator("#lengths figure").first.locator(".catch").nth(1).click(force=True)
    shown(page, 3, 6)
    assert page.locator("#range").inner_text() == "ours: 25 to 31 characters ✕"
    assert page.url.endswith("length=first_characters:25-31&view=characters")
    page.click("#lengths summary")
    assert page.locator("#lengths tbody tr").nth(0).inner_text().split() == ["5", "3", "3", "0", "0"]
    page.click("#range")
    shown(page, 6, 6)


def test_lengths_in_tokens_and_task_by_task(show: Show) -> None:
    known = [sample("a b", "c", doc=doc, task=f"task_{doc % 2}") for doc in range(6)]
    samples = [
        replace(
            known_sample, answers=(replace(known_sample.answers[0], tokens=2 + known_sample.doc),), recorded_tokens=1
        )
        for known_sample in known
    ]
    page = show(make_report(), sorted(samples, key=lambda item: (item.task, item.doc)))
    page.click("#show-lengths")
    page.click("#lengths button:has-text('tokens')")
    page.wait_for_selector("#lengths figcaption:has-text('longest 7 tokens')")
    page.click("text=Task by task")
    assert page.locator(".by-task li").count() == 2
    assert "ours: median 5" in page.locator(".by-task li").nth(1).inner_text()
    page.click(".by-task a >> text=task_1")
    shown(page, 3, 6)


def test_the_shown_rows_are_written_as_json_lines(page: Page) -> None:
    page.select_option("#task", "meta_math_hard")
    page.select_option("#first", "right")
    wanted = [
        entry for entry in make_samples(COUNT, 800) if entry.task == "meta_math_hard" and entry.answers[0].verdict == 1
    ]
    shown(page, len(wanted))
    with page.expect_download() as download:
        page.click("text=JSONL")
    assert download.value.suggested_filename == "meta_math_hard.jsonl"
    rows = [json.loads(line) for line in download.value.path().read_text(encoding="utf-8").splitlines()]
    assert [(row["doc"], row["prompt"], row["answers"]["ours"]["text"]) for row in rows] == [
        (entry.doc, entry.prompt, entry.answers[0].text) for entry in wanted
    ]


def test_a_spreadsheet_runs_no_formula_of_a_model(show: Show) -> None:
    texts = ['=HYPERLINK("http://x")', "+1+cmd|' /C calc'!A0", "@SUM(1)", "-5", "-5+2", "\t=1", 'say "yes",\nno']
    page = show(make_report(), [sample(text, "r", doc=doc) for doc, text in enumerate(texts)])
    page.wait_for_selector(ROWS)
    with page.expect_download() as download:
        page.click("text=CSV")
    with download.value.path().open(encoding="utf-8-sig", newline="") as file:
        written = [row["ours answer"] for row in csv.DictReader(file)]
    assert written == [*(f"'{text}" for text in texts[:3]), "-5", "'-5+2", "'\t=1", texts[6]]


# Keyboard and screen reader


def test_everything_is_done_with_the_keyboard(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("question 1")
    shown(page, sum(entry.question.startswith("Question 1") for entry in make_samples(COUNT, 800)))
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert selected(page) == "10"
    page.keyboard.press("Enter")
    page.wait_for_selector("#pane-title:focus")
    page.keyboard.press("Escape")
    assert page.locator("#pane").is_hidden()
    assert page.evaluate("document.activeElement.id") == "grid"
    page.keyboard.press("End")
    assert selected(page) == "199"
    page.keyboard.press("Home")
    assert selected(page) == "1"


def test_the_open_sample_follows_the_arrow_keys(page: Page) -> None:
    page.locator(ROWS).nth(3).click()
    page.wait_for_selector("#pane-title:has-text('doc 3')")
    page.focus("#grid")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#pane-title:has-text('doc 4')")
    page.click("[aria-label='Previous sample']")
    page.wait_for_selector("#pane-title:has-text('doc 3')")


def test_a_screen_reader_is_told_the_size_and_the_place(page: Page) -> None:
    grid = page.locator("#grid")
    assert (grid.get_attribute("role"), grid.get_attribute("aria-rowcount")) == ("grid", str(COUNT + 1))
    assert page.locator(ROWS).nth(4).get_attribute("aria-rowindex") == "6"
    assert page.locator("#status").get_attribute("role") == "status"
    nameless = page.eval_on_selector_all(
        "input, select, button, [role=region], [role=grid]",
        """all => all.filter(one => one.checkVisibility() && !(one.labels?.length || one.textContent.trim()
            || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby"))).map(one => one.outerHTML)""",
    )
    assert nameless == []


def test_what_a_narrow_window_covers_cannot_be_reached(show: Show) -> None:
    page = show(make_report(), make_samples(50, 400), viewport={"width": 390, "height": 844})
    page.locator(ROWS).nth(2).click()
    page.wait_for_selector("#pane pre")
    assert page.eval_on_selector("#filters", "one => one.inert")
    assert page.eval_on_selector("#said", "one => !one.closest('[inert]')")
    page.keyboard.press("Escape")
    assert not page.eval_on_selector("#filters", "one => one.inert")


# Foreign text


def test_no_text_of_a_model_is_ever_run(show: Show) -> None:
    page = show(make_report(name=" ".join(HOSTILE)), hostile_samples())
    page.wait_for_selector(ROWS)
    before = page.evaluate("document.querySelectorAll('script, img, iframe, svg, a, style').length")
    for number in range(len(HOSTILE) + 1):
        page.locator(ROWS).nth(number).click()
        page.wait_for_selector(f"#pane-title:has-text('doc {number}')")
    assert page.evaluate("document.querySelectorAll('script, img, iframe, svg, a, style').length") == before


def test_a_script_that_got_in_would_not_run(page: Page, expected: list[str]) -> None:
    """The second line of defence: the policy, even for markup that were not escaped."""
    expected.append("Content Security Policy")
    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = 1";
            document.body.append(script);
            return window.ran ?? 0;
        }"""
    )
    assert ran == 0


def test_hidden_characters_are_seen(show: Show) -> None:
    page = show(make_report(), hostile_samples())
    for number, expected in ((5, ["U+202E", "U+202C", "U+2066"]), (6, ["U+D83D", "U+DE00"]), (4, ["U+0000", "U+0007"])):
        page.locator(ROWS).nth(number).click()
        page.wait_for_selector(f"#pane-title:has-text('doc {number}')")
        assert page.locator("#pane pre").first.locator(".alien").all_inner_texts()[: len(expected)] == expected


def test_one_line_of_two_million_characters_is_shown_by_its_ends(show: Show) -> None:
    page = show(make_report(), hostile_samples())
    page.locator(ROWS).nth(len(HOSTILE)).click()
    page.wait_for_selector("#pane .more")
    assert page.locator("#pane pre").first.evaluate("one => one.textContent.length") < 50_000
    assert "show the 1,960,007 characters between" in page.locator("#pane pre").first.inner_text()


# Size


def test_twenty_thousand_samples_of_ten_kilobytes_stay_usable(show: Show) -> None:
    page = show(make_report(), make_samples(20_000, 10_000))
    page.wait_for_selector(ROWS)
    shown(page, 20_000, 20_000)
    page.focus("#grid")
    page.keyboard.press("End")
    assert selected(page) == "19999"
    assert page.locator(ROWS).count() < 100
    page.keyboard.press("Enter")
    page.wait_for_selector("#pane-title:has-text('doc 19999')")
    page.fill("#search", "question 12345:")
    shown(page, 1, 20_000)
    # An index and a handful of chunks, of 200 MB of texts.
    assert page.evaluate("performance.memory.usedJSHeapSize") < 200e6


# Each element with text of its own whose contrast with what lies under it is too low: 4.5, large text 3.
_CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (color, under) => {
        canvas.fillStyle = `rgb(${under.join()})`;
        canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const ground = (element) => {
        const above = element.parentElement ? ground(element.parentElement) : [255, 255, 255];
        return rgba(getComputedStyle(element).backgroundColor, above);
    };
    const light = (color) => {
        const [r, g, b] = color.map((c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const poor = [];
    for (const element of document.body.querySelectorAll("*")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility({ visibilityProperty: true }) || element.closest("svg, .skip, script, noscript")) continue;
        const style = getComputedStyle(element);
        const under = ground(element);
        let seen = rgba(style.color, under);
        for (let one = element; one; one = one.parentElement) {
            const share = parseFloat(getComputedStyle(one).opacity);
            seen = seen.map((c, at) => share * c + (1 - share) * under[at]);
        }
        const [a, b] = [light(seen), light(under)].sort((x, y) => x - y);
        const ratio = (b + 0.05) / (a + 0.05);
        const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5)) poor.push(`${element.className || element.tagName}: ${ratio.toFixed(2)}`);
    }
    return [...new Set(poor)];
}"""
