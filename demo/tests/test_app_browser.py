"""The demo in a real browser: clicks, uploads, sliders; on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from browser import chromium
from geq_demo.session import Session

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no Chromium; set GEQ_CHROMIUM to its path"),
]

PATIENCE = 60_000
"""Milliseconds that an answer may take on a busy machine."""


@pytest.fixture(scope="module")
def address(start: Any) -> Iterator[str]:
    with start("patches") as demo:
        yield demo.address


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page with all that it asked for and complained about."""

    def __init__(self, page: Any, pictures: Path) -> None:
        self.page, self.pictures = page, pictures
        self.hosts: set[str | None] = set()
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).hostname))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)

    def wait(self, selector: str, words: str) -> None:
        """Until what ``selector`` finds holds ``words``."""
        playwright.expect(self.page.locator(selector)).to_contain_text(words, timeout=PATIENCE)

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def html(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_html())

    def changed(self, selector: str, before: str) -> str:
        """The HTML of an element once it is no longer what it was."""
        for _ in range(PATIENCE // 100):
            now = self.html(selector)
            if now != before:
                return now
            self.page.wait_for_timeout(100)
        raise AssertionError(f"{selector} did not change")

    def slide(self, name: str, value: int) -> None:
        self.page.locator(f"#{name} input[type=range]").fill(str(value))

    def give(self, path: Path) -> None:
        self.page.locator("#file input[type=file]").set_input_files(path)

    def pick(self, name: str, option: str) -> None:
        self.page.locator(f"#{name} input").click()
        options = self.page.get_by_role("option")
        self.page.get_by_role("option", name=option, exact=True).click()
        # A list that still fades away would be found beside the next one.
        playwright.expect(options).to_have_count(0, timeout=PATIENCE)

    def keep(self, name: str) -> None:
        self.page.screenshot(path=self.pictures / f"{name}.png", full_page=True)
        assert (self.pictures / f"{name}.png").stat().st_size > 10_000


@contextmanager
def visit(
    program: Any, address: str, pictures: Path, width: int = 1280, scheme: str = "light"
) -> Iterator[Visit]:
    context = program.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    found = Visit(context.new_page(), pictures)
    try:
        found.page.goto(address, timeout=PATIENCE)
        found.page.wait_for_selector("#answer-a .said", timeout=PATIENCE)
        yield found
    finally:
        context.close()


def test_page_asks_nobody_else_and_has_no_errors(
    program: Any, address: str, session: Session, tmp_path: Path
) -> None:
    with visit(program, address, tmp_path) as seen:
        seen.wait("#answer-a h3", "patches on test image")
        playwright.expect(seen.page.locator("#gallery img")).to_have_count(12, timeout=PATIENCE)
        assert seen.page.locator("#answer-a .bars li").count() == 5
        assert seen.page.locator("#settling-a svg.chart").count() == 2
        seen.page.locator("#gallery button").nth(7).click()
        seen.wait("#answer-a h3", f"test image {session.gallery('patches').pictures[7].index} ")
        seen.keep("desk")
        assert seen.hosts <= {"127.0.0.1", None}  # None: addresses that hold their own data
        assert seen.errors == []


def test_click_on_an_image_shows_that_image(
    program: Any, address: str, session: Session, tmp_path: Path
) -> None:
    with visit(program, address, tmp_path) as seen:
        for number in (4, 9):
            picture = session.gallery("patches").pictures[number]
            seen.page.locator("#gallery button").nth(number).click()
            seen.wait("#answer-a h3", f"test image {picture.index} of digits")
        assert seen.errors == []


def test_upload_is_classified(program: Any, address: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "my picture.png")
    with visit(program, address, tmp_path) as seen:
        seen.give(tmp_path / "my picture.png")
        seen.wait("#answer-a h3", "patches on my picture.png")
        assert seen.text("#message").strip() == ""
        assert seen.errors == []


def test_bad_uploads_are_refused_in_words_and_the_page_goes_on(
    program: Any, address: str, session: Session, tmp_path: Path
) -> None:
    (tmp_path / "poem.png").write_text("roses are red")
    Image.new("L", (10_000, 10_000)).save(tmp_path / "huge.png")
    with visit(program, address, tmp_path) as seen:
        before = seen.html("#answer-a .geq")
        seen.give(tmp_path / "poem.png")
        seen.wait("#message", "poem.png is not an image that can be read")
        seen.give(tmp_path / "huge.png")
        seen.wait("#message", "huge.png announces 10000 × 10000 pixels")
        assert seen.html("#answer-a .geq") == before
        seen.keep("refused")
        seen.page.locator("#gallery button").nth(2).click()
        seen.wait("#answer-a h3", f"test image {session.gallery('patches').pictures[2].index} ")
        assert seen.text("#message").strip() == ""
        assert seen.errors == []


def test_file_beyond_the_limit_is_refused(
    program: Any, address: str, session: Session, tmp_path: Path
) -> None:
    (tmp_path / "large.png").write_bytes(bytes(11 * 2**20))
    with visit(program, address, tmp_path) as seen:
        seen.give(tmp_path / "large.png")
        seen.wait("body", "exceed the maximum allowed size of 10.0 Mb")
        seen.page.locator("#gallery button").nth(3).click()
        shown = session.gallery("patches").pictures[3].index
        seen.wait("#answer-a h3", f"test image {shown} ")
        assert "large.png" not in seen.text("#answer-a")


def test_sliders_disturb_the_image_and_undo_brings_it_back(
    program: Any, address: str, tmp_path: Path
) -> None:
    with visit(program, address, tmp_path) as seen:
        clear = seen.html("#answer-a .geq")
        seen.slide("noise", 80)
        noisy = seen.changed("#answer-a .geq", clear)
        seen.pick("corruption", "frost")
        frozen = seen.changed("#answer-a .geq", noisy)
        seen.slide("severity", 5)
        seen.changed("#answer-a .geq", frozen)
        seen.page.locator("#reset").click()
        playwright.expect(seen.page.locator("#noise input[type=range]")).to_have_value("0", timeout=PATIENCE)
        for _ in range(PATIENCE // 100):
            if seen.html("#answer-a .geq") == clear:
                break
            seen.page.wait_for_timeout(100)
        assert seen.html("#answer-a .geq") == clear
        assert seen.errors == []


def test_step_slider_follows_the_solve(program: Any, address: str, tmp_path: Path) -> None:
    with visit(program, address, tmp_path) as seen:
        steps = int(seen.page.locator("#step-a input[type=range]").get_attribute("max"))
        assert steps > 2
        left = []
        for step in (1, 2, steps):
            seen.slide("step-a", step)
            seen.page.wait_for_selector(f"#settling-a [data-step='{step}']")
            seen.wait("#settling-a", f"State after step {step}")
            found = re.search(r"([\d.e-]+) % of the whole", seen.text("#settling-a"))
            assert found is not None
            left.append(float(found[1]))
            assert seen.page.locator("#settling-a .dot.here").count() == 2
        assert left == sorted(left, reverse=True)
        seen.page.locator("#way-a").get_by_text("plain repetition").click()
        playwright.expect(seen.page.locator("#settling-a .dot.plain.here")).to_have_count(2, timeout=PATIENCE)
        chosen = seen.page.locator("#way-a input:checked")
        apart = chosen.evaluate("e => getComputedStyle(e).backgroundColor")
        chosen.hover()
        under_mouse = chosen.evaluate("e => getComputedStyle(e).backgroundColor")
        assert under_mouse == apart != "rgb(255, 255, 255)", "the chosen button is seen under the mouse"
        before = seen.html("#settling-a .geq")
        seen.pick("branch-a", "branch 1")
        seen.changed("#settling-a .geq", before)
        assert seen.errors == []


def test_two_networks_side_by_side(program: Any, address: str, tmp_path: Path) -> None:
    with visit(program, address, tmp_path) as seen:
        assert not seen.page.locator("#answer-b").is_visible()
        seen.pick("model-b", "scales")
        seen.wait("#answer-b h3", "scales on test image")
        left, right = (seen.page.locator(f"#answer-{letter}").bounding_box() for letter in "ab")
        assert left["x"] + left["width"] <= right["x"] + 1
        seen.keep("beside")
        seen.pick("model-b", "layers")
        seen.wait("#answer-b", "no equilibrium")
        assert not seen.page.locator("#settling-b").is_visible()
        seen.pick("model-a", "plain")
        seen.wait("#answer-a h3", "plain on test image")
        assert seen.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone_needs_no_sideways_scrolling(program: Any, address: str, tmp_path: Path, scheme: str) -> None:
    with visit(program, address, tmp_path, 390, scheme) as seen:
        seen.pick("model-b", "plain")
        seen.wait("#answer-b h3", "plain on test image")
        beyond = "[...document.querySelectorAll('.geq *')].filter(e => e.getBoundingClientRect().right > 391)"
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert seen.page.locator("#answer-a").bounding_box()["width"] <= 390
        assert seen.page.evaluate(f"{beyond}.map(e => e.outerHTML.slice(0, 99))") == []
        background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", background)[:3])) > 380
        assert light == (scheme == "light")
        seen.keep(f"phone-{scheme}")
        assert seen.errors == []
