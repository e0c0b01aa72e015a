"""The page in a real browser: it sorts, it stays quiet, it asks nobody for anything, it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser, chromium
from geq_papers.report.evidence import gather
from geq_papers.report.page import page, sections
from synthetic_records import experiments, records, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="Chromium is not installed (or name it in GEQ_CHROMIUM)"),
]

HOSTILE = (
    '</script><script>console.error("run")</script>'
    '<img src="https://example.com/x.png" onerror="console.error(1)">'
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write(folder / "results", records())
    (folder / "results" / "small" / "foreign.jsonl").write_text(f"{HOSTILE}\n")
    evidence = gather(folder / "results", experiments())
    path = folder / "report.html"
    path.write_text(page(evidence, sections(evidence)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser"), seconds=300) as found:
        found.resize(1280)
        yield found


@pytest.fixture
def shown(browser: Browser, written: Path) -> Browser:
    browser.resize(1280)
    browser.prefer("light")
    browser.open(written)
    return browser


def test_no_error_and_no_request(shown: Browser, written: Path) -> None:
    shown.requests.clear()
    shown.open(written)
    shown.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert shown.problems == []
    assert [one for one in shown.requests if not one.startswith("data:")] == [written.as_uri()]
    assert shown.evaluate("performance.getEntriesByType('resource').length") == 0


def test_what_goes_wrong_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('a'); undefined_name()</script><img src='missing.png'>")
    kept = list(browser.problems)
    browser.requests.clear()
    browser.open(bad)
    browser.evaluate("new Promise((done) => setTimeout(done, 200))")
    assert len(browser.problems) >= len(kept) + 2
    assert any(address.endswith("missing.png") for address in browser.requests)
    browser.problems[:] = kept


COLUMN = """Array.from(document.querySelectorAll('#table-geq-table-1a-small tbody tr'),
    (row) => row.cells[{column}].textContent)"""
HEAD = "Array.from(document.querySelectorAll('#table-geq-table-1a-small thead tr:last-child th'))[{column}]"


def test_a_click_sorts_and_another_turns_round(shown: Browser) -> None:
    head = HEAD.format(column=3)
    before = shown.evaluate(COLUMN.format(column=3))
    shown.evaluate(f"{head}.querySelector('button').click()")
    rising = shown.evaluate(COLUMN.format(column=3))
    assert rising == sorted(before, key=lambda text: float(text.split()[0]))
    assert rising != before
    assert shown.evaluate(f"{head}.getAttribute('aria-sort')") == "ascending"
    shown.evaluate(f"{head}.querySelector('button').click()")
    assert shown.evaluate(COLUMN.format(column=3)) == rising[::-1]
    assert shown.evaluate(f"{head}.getAttribute('aria-sort')") == "descending"


def test_missing_values_stay_last_and_the_keyboard_sorts(shown: Browser) -> None:
    head = HEAD.format(column=2)
    for order in ("ascending", "descending"):
        shown.evaluate(f"{head}.querySelector('button').focus()")
        shown.press("Enter", "\r")
        assert shown.evaluate(f"{head}.getAttribute('aria-sort')") == order
        assert shown.evaluate(COLUMN.format(column=2))[-1] == "–", "the control has no published figure"


def test_every_figure_has_caption_and_alternative_text(shown: Browser) -> None:
    figures = shown.evaluate(
        """Array.from(document.querySelectorAll('figure'), (figure) => {
            const picture = figure.querySelector('svg[role=img], img');
            const words = picture.getAttribute('aria-label') ?? picture.getAttribute('alt');
            return [figure.querySelector('figcaption').innerText.length, words.length];
        })"""
    )
    assert len(figures) == 9, "2 + 3 + 3, and the forest plot"
    assert all(caption > 20 and words > 20 for caption, words in figures)
    assert (
        shown.evaluate("document.querySelectorAll('svg:not([role=img]):not([aria-hidden=true])').length") == 0
    )


def test_anchors_lead_somewhere_and_are_unique(shown: Browser) -> None:
    script = "Array.from(document.querySelectorAll('a[href]'), (a) => a.getAttribute('href'))"
    names = shown.evaluate("Array.from(document.querySelectorAll('[id]'), (element) => element.id)")
    assert len(names) == len(set(names))
    assert {link.removeprefix("#") for link in shown.evaluate(script)} <= set(names)


def paper(browser: Browser) -> str:
    return str(browser.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_light_dark_and_the_button(shown: Browser) -> None:
    assert paper(shown) == "rgb(255, 255, 255)"
    shown.prefer("dark")
    dark = paper(shown)
    assert dark != "rgb(255, 255, 255)"
    button = "document.getElementById('theme')"
    shown.evaluate(f"{button}.click()")
    assert (shown.evaluate(f"{button}.textContent"), paper(shown)) == ("Theme: light", "rgb(255, 255, 255)")
    shown.prefer("light")
    shown.evaluate(f"{button}.click()")
    assert (shown.evaluate(f"{button}.textContent"), paper(shown)) == ("Theme: dark", dark)
    shown.evaluate(f"{button}.click()")
    assert (shown.evaluate(f"{button}.textContent"), paper(shown)) == ("Theme: auto", "rgb(255, 255, 255)")


CONTRAST = """(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const light = (colour, below) => {
        canvas.fillStyle = below ?? '#000'; canvas.fillRect(0, 0, 1, 1);
        canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        const parts = Array.from(canvas.getImageData(0, 0, 1, 1).data.slice(0, 3), (value) => {
            const share = value / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return colour;
        }
        return '#fff';
    };
    const ratio = (colour, element) => {
        const pair = [light(colour), light(behind(element))].sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
    };
    const text = 'p, td, th, small, .verdict, .chips b, .chips span, figcaption, a, li, button';
    const least = (selector, property) => Array.from(document.querySelectorAll(selector))
        .map((element) => [ratio(getComputedStyle(element)[property], element), element.className])
        .reduce((one, other) => (other[0] < one[0] ? other : one));
    return [least(text, 'color'), least('figure .line', 'stroke')];
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_curves_can_be_seen(shown: Browser, scheme: str) -> None:
    shown.prefer(scheme)
    words, curves = shown.evaluate(CONTRAST)
    assert words[0] >= 4.5, f"text against its ground (WCAG AA): {words}"
    assert curves[0] >= 3.0, f"graphics against their ground (WCAG AA): {curves}"


@pytest.mark.parametrize("width", [360, 768, 1100, 1280])
def test_nothing_is_wider_than_the_screen(shown: Browser, width: int) -> None:
    shown.resize(width)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_claims_need_no_scrolling(shown: Browser) -> None:
    for width in (360, 1280):
        shown.resize(width)
        box = "document.querySelector('#claims .scroll')"
        assert shown.evaluate(f"{box}.scrollWidth - {box}.clientWidth") == 0, width


def test_no_table_is_cut_at_1280_pixels(shown: Browser) -> None:
    shown.evaluate("for (const folded of document.querySelectorAll('details')) folded.open = true")
    boxes = "Array.from(document.querySelectorAll('.scroll'), (box) => box.scrollWidth - box.clientWidth)"
    assert max(shown.evaluate(boxes)) == 0


def test_claims_of_the_papers_are_counted_apart(shown: Browser) -> None:
    chips = "Array.from(document.querySelectorAll('.chips'), (one) => one.innerText.replace(/\\s+/g, ' '))"
    papers, ours = shown.evaluate(chips)
    assert papers == "2 holds 1 fails 1 undecided at this scale 1 not run"
    assert ours == "1 holds 0 fails 0 undecided at this scale 0 not run"


def test_contents_name_every_experiment(shown: Browser) -> None:
    words = shown.evaluate("document.querySelector('nav').innerText")
    for entry in ("Claims of the papers", "Our own questions", "GEQ table 1a", "Cost"):
        assert entry in words


def test_it_prints(shown: Browser) -> None:
    content = shown.call("Page.printToPDF", printBackground=False)["data"]
    assert len(content) > 50_000
