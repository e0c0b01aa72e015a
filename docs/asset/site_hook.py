"""Brings the pages that live outside of docs/ into the site, and turns links between files into links between
pages: a link that works in the repository works on the site. A link to records becomes one to their place in
the report.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def outside_pages() -> dict[str, Path]:
    """Page of the site -> file of the repository."""
    pages = {
        "project/changelog.md": ROOT / "CHANGELOG.md",
        "project/contributing.md": ROOT / "CONTRIBUTING.md",
        "project/security.md": ROOT / "SECURITY.md",
        "project/reliability.md": ROOT / "stress" / "README.md",
        "project/benchmarks.md": ROOT / "benchmarks" / "README.md",
        "project/decisions.md": ROOT / "decisions" / "README.md",
        "examples.md": ROOT / "examples" / "README.md",
    }
    decisions = sorted((ROOT / "decisions").glob("[0-9]*.md"))
    return pages | {f"project/decisions/{path.name}": path for path in decisions}


def page_names() -> dict[Path, str]:
    """File or folder of the repository -> page of the site."""
    names = {path: name for name, path in outside_pages().items()}
    names |= {path: path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    names |= dict.fromkeys((ROOT / "examples").glob("*.py"), "examples.md")
    names |= dict.fromkeys((ROOT / "examples").glob("*.ipynb"), "examples.md")
    return names | {
        ROOT / "README.md": "index.md",
        ROOT / "decisions": "project/decisions.md",
        ROOT / "benchmarks": "project/benchmarks.md",
        ROOT / "stress": "project/reliability.md",
        ROOT / "examples": "examples.md",
    }


def on_config(config: MkDocsConfig, **rest: Any) -> MkDocsConfig:
    """Pages that the navigation does not name come at the end of the guides, so that a new one is found."""
    named = re.findall(r"[\w/]+\.md", str(config.nav))
    guides = next(section["Guides"] for section in config.nav or [] if "Guides" in section)
    guides += [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in named]
    return config


def on_files(files: Files, config: MkDocsConfig, **rest: Any) -> Files:
    for name, path in outside_pages().items():
        files.append(File.generated(config, name, content=path.read_text(encoding="utf-8") + appendix(name)))
    files.append(File.generated(config, "report.html", content=report()[0]))
    return files


@cache
def report() -> tuple[str, dict[str, str]]:
    """Return the page of ``geq report`` on our records, and the tables of each page of results."""
    from geq_papers.experiment.experiment_registry import EXPERIMENTS
    from geq_papers.experiment.plan import usable
    from geq_papers.report.evidence import gather
    from geq_papers.report.page import page, sections

    evidence = gather(str(ROOT / "results"), EXPERIMENTS, usable)
    parts = sections(evidence)
    tables: dict[str, list[str]] = {}
    for part in parts:
        for one in part.content.get("experiments", ()):
            name = one.anchor.removeprefix("experiment-")
            place = f"results/{name.split('-')[0]}.md"
            shown = [replace(at.table, title=f"{one.heading} ({at.scale})") for at in one.scales]
            tables.setdefault(place, []).extend(table.markdown() for table in shown)
    return page(evidence, parts), {name: "\n\n".join(found) for name, found in tables.items()}


def appendix(name: str) -> str:
    """What the site adds to a page: the list of decisions, the source of the examples."""
    if name == "project/decisions.md":
        decisions = sorted((ROOT / "decisions").glob("[0-9]*.md"))
        titles = [(path, path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")) for path in decisions]
        return "\n" + "\n".join(f"* [{title}]({path.name})" for path, title in titles) + "\n"
    if name == "examples.md":
        scripts = sorted((ROOT / "examples").glob("*.py"))
        sources = [f"## {path.name}\n\n```py\n{path.read_text(encoding='utf-8')}```\n" for path in scripts]
        return "\n" + "\n".join(sources)
    return ""


def on_page_markdown(markdown: str, page: Page, **rest: Any) -> str:
    name = page.file.src_uri
    origin = outside_pages().get(name, ROOT / "docs" / name).parent
    names = page_names()

    def on_site(link: re.Match[str]) -> str:
        found = (origin / link[1]).resolve()
        if found.suffix == ".jsonl" and found.parents[1] == ROOT / "results":
            page_of_records = posixpath.relpath("report.html", posixpath.dirname(name) or ".")
            return f"]({page_of_records}#{found.stem}-{found.parent.name})"
        target = names.get(found)
        if target is None:
            return link[0]
        return f"]({posixpath.relpath(target, posixpath.dirname(name) or '.')}{link[2] or ''})"

    markdown += "\n" + report()[1].get(name, "")
    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(on_site, part) for part in parts)


def on_post_build(config: MkDocsConfig, **rest: Any) -> None:
    """The index of the search as a script as well, which is what the theme reads where there is no server."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
