"""The page in a real browser: it shows what it should, finds what one looks for, and runs nothing that a model wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from reports import HOSTILE, hostile_samples, make_comparison, make_report, make_samples

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Show = Callable[..., Page]

pytestmark = pytest.mark.browser

COUNT = 600
ROWS = ".rowgroup .row"


@pytest.fixture
def page(show: Show) -> Page:
    opened = show(make_report(gated=True), make_samples(COUNT, 800))
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


def test_the_decision_comes_first_then_alarms_then_drops_then_numbers(page: Page) -> None:
    titles = page.locator("h2").all_inner_texts()
    assert titles[:4] == ["DON'T", "Look at this first", "What is lost", "Beside the published numbers"]
    assert "meta_math_hard shown below" in " ".join(page.locator("table.plot").inner_text().split())


def test_each_outcome_has_a_shape_of_its_own(page: Page) -> None:
    used = page.eval_on_selector_all("td.chart use", "all => all.map(one => one.getAttribute('href'))")
    assert {"#holds", "#below"} <= set(used)


def test_nothing_is_wider_than_the_window(look: Page) -> None:
    assert look.evaluate("document.documentElement.scrollWidth <= innerWidth")


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
    assert "25.0 → 21.0" in page.locator("table.plot").inner_text()
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
    of_task = [one for one in samples if one.task == "meta_math_hard"]
    shown(page, len(of_task))
    page.select_option("#first", "right")
    shown(page, sum(one.answers[0].verdict == 1 for one in of_task))
    page.select_option("#second", "none")
    shown(page, sum(one.answers[0].verdict == 1 and one.meta is None for one in of_task))
    page.click("text=clear")
    shown(page, COUNT)


def test_flips_are_found_both_ways(page: Page) -> None:
    pairs = [(one.answers[0].verdict, one.meta) for one in make_samples(COUNT, 800)]
    ours, theirs = pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0))
    page.click("text=only ours right >> nth=-1")
    shown(page, ours)
    page.click("text=only Meta's right >> nth=-1")
    shown(page, ours + theirs)


def test_an_alarm_leads_to_its_samples(page: Page) -> None:
    page.click("text=show them >> nth=1")
    flagged = [one for one in make_samples(COUNT, 800) if one.task == "meta_math_hard" and one.answers[0].flags]
    shown(page, sum("unextracted" in one.answers[0].flags for one in flagged))
    assert page.evaluate("document.activeElement.id") == "grid"


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
    assert page.locator("#pane pre").nth(1).inner_text() == sample.prompt


def test_both_answers_of_a_comparison_stand_side_by_side(show: Show) -> None:
    page = show(make_comparison(), make_samples(20, 400, answers=2))
    page.locator(ROWS).nth(1).click()
    page.wait_for_selector(".answers.two pre")
    boxes = [one.bounding_box() for one in page.locator(".answers.two pre").all()]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]


# Keyboard and screen reader


def test_everything_is_done_with_the_keyboard(page: Page) -> None:
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("question 1")
    shown(page, sum(one.question.startswith("Question 1") for one in make_samples(COUNT, 800)))
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
