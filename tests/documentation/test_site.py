"""The site builds without a warning, loads nothing from elsewhere, and its links lead to what they name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browser import Browser, chromium

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}

SEARCH = """new Promise((done) => {
  const field = document.querySelector('.md-search__input');
  field.focus();
  field.value = 'certificate';
  field.dispatchEvent(new KeyboardEvent('keyup', {key: 'e', bubbles: true}));
  const look = () => {
    const links = [...document.querySelectorAll('.md-search-result__link')];
    links.length ? done(links.map((link) => link.href)) : setTimeout(look, 100);
  };
  look();
})"""
CUT = """[...document.querySelectorAll('.md-typeset__scrollwrap, .md-typeset pre > code')]
  .filter((part) => part.scrollWidth > part.clientWidth + 1)
  .map((part) => `${part.scrollWidth} > ${part.clientWidth}: ${part.innerText.slice(0, 80)}`)"""


class Page(HTMLParser):
    """Resources, links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.names |= {found[key] for key in ("id", "name") if key in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADED and LOADED[tag] in found:
            self.loaded.append(found[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "built"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_every_page_of_the_folder_is_built(pages: dict[Path, Page], site: Path) -> None:
    built = {path.relative_to(site).with_suffix("").as_posix() for path in pages}
    written = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    decisions = {f"project/decisions/{path.stem}" for path in (ROOT / "decisions").glob("[0-9]*.md")}
    assert written | decisions | {"project/changelog", "project/benchmarks", "examples"} <= built


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Page], site: Path) -> None:
    for path, page in pages.items():
        outside = [address for address in page.loaded if re.match(r"(?!data:)[a-z]+:|//", address)]
        assert not outside, f"{path.relative_to(site)} loads {outside}"
    for style in site.rglob("*.css"):
        outside = re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)'\"]*", style.read_text("utf-8"))
        assert not outside, f"{style.relative_to(site)} loads {outside}"


@pytest.mark.slow
def test_links_between_pages_lead_somewhere(pages: dict[Path, Page], site: Path) -> None:
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are those of a page at any depth
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            if address.fragment and target in pages:
                known = pages[target].names | {"__codelineno"}
                assert unquote(address.fragment) in known, f"{path.relative_to(site)} links to {link}"


@pytest.mark.slow
def test_every_entry_of_the_reference_is_built(pages: dict[Path, Page], site: Path) -> None:
    for source in sorted((ROOT / "docs" / "api").glob("*.md")):
        wanted = re.findall(r"^::: (\S+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        page = pages[site / "api" / f"{source.stem}.html"]
        assert set(wanted) <= page.names, f"{source.name} lacks {set(wanted) - page.names}"
        shown = re.sub(r"<details.*?</details>", "", page.path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert ":class:" not in shown, f"{source.name} shows a role of Sphinx"


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no Chromium: set GEQ_CHROMIUM to its path")
@pytest.mark.parametrize(
    "name", ["index.html", "architecture.html", "mathematics.html", "api/kernel.html", "results/geq.html"]
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_asks_for_nothing_else(site: Path, tmp_path: Path, name: str, scheme: str) -> None:
    with Browser(tmp_path) as browser:
        browser.prefer(scheme)
        browser.resize(390)
        browser.open(site / name)
        width = browser.evaluate("document.documentElement.scrollWidth")
        shown = browser.evaluate("document.body.getAttribute('data-md-color-scheme')")
        requests, problems = list(browser.requests), list(browser.problems)
    assert requests
    assert not problems
    assert shown == {"light": "default", "dark": "slate"}[scheme]
    assert all(address.startswith((site.as_uri(), "data:", "blob:")) for address in requests), requests
    assert width <= 390, "a phone would have to scroll sideways"


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no Chromium: set GEQ_CHROMIUM to its path")
def test_search_works_from_a_disk(site: Path, tmp_path: Path) -> None:
    """A browser starts no worker from file://, and the theme hides its search box without one."""
    with Browser(tmp_path) as browser:
        browser.resize(1280)
        browser.open(site / "index.html")
        assert browser.evaluate("document.querySelector('.md-search').hidden") is False
        found = browser.evaluate(SEARCH)
        problems = list(browser.problems)
    assert not problems
    assert any("/certificate.html" in address for address in found), found
    assert all(address.startswith(site.as_uri()) for address in found)


@pytest.mark.slow
@pytest.mark.skipif(chromium() is None, reason="no Chromium: set GEQ_CHROMIUM to its path")
def test_nothing_is_cut_on_a_laptop(pages: dict[Path, Page], site: Path, tmp_path: Path) -> None:
    """Tables and code of the guides fit into the column of text at 1280 pixels."""
    cut: dict[str, list[str]] = {}
    with Browser(tmp_path, seconds=240) as browser:
        browser.resize(1280)
        for path in pages:
            name = path.relative_to(site).as_posix()
            if name.startswith(("api/", "project/", "report", "404")):
                continue
            browser.open(path)
            if found := browser.evaluate(CUT):
                cut[name] = found
    assert not cut
