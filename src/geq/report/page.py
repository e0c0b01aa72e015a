"""One HTML page with everything in it: no file beside it, no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

from geq.report.markup import EMPTY, Markup, element, join
from geq.report.number import duration
from geq.report.section.claim import summary
from geq.report.section.cost import costs
from geq.report.section.environment import environment
from geq.report.section.erratum import errata
from geq.report.section.part import Section
from geq.report.section.result import results
from geq.report.section.run import runs
from geq.report.source import Evidence

TITLE = "Equilibrium models: what the papers claim, and what we find"
SHOWN = 20
"""Complaints that are listed; the rest is counted."""


def sections(evidence: Evidence, run_folder: str | Path | None = None) -> list[Section]:
    """The sections in the order of the page."""
    analysed = None if run_folder is None else runs(run_folder)
    return [
        summary(evidence),
        results(evidence),
        *([analysed] if analysed is not None else []),
        costs(evidence),
        errata(),
        environment(evidence),
    ]


def page(evidence: Evidence, parts: list[Section]) -> str:
    """The document. The same records give the same bytes."""
    style, script = (asset(name) for name in ("style.css", "script.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = [
        element("meta", "", {"charset": "utf-8"}),
        element("meta", "", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", "", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", "", {"name": "color-scheme", "content": "light dark"}),
        element("title", TITLE),
        element("style", style),
    ]
    main = [complaint_notice(evidence), *(section_markup(part) for part in parts), footer(evidence)]
    body = [
        element("a", "Skip to the text", {"class": "skip", "href": "#main"}),
        element(
            "div",
            [header(evidence), contents(parts), element("main", main, {"id": "main"})],
            {"class": "layout"},
        ),
        element("script", script),
    ]
    document = element("html", [element("head", head), element("body", body)], {"lang": "en"})
    return f"<!DOCTYPE html>\n{document}\n"


def asset(name: str) -> Markup:
    """A file of this package, which may stand in the page as it is."""
    return Markup((resources.files("geq.report") / name).read_text(encoding="utf-8"))


def digest(text: str) -> str:
    """By which the browser knows our own style and script, and runs no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def header(evidence: Evidence) -> Markup:
    records = evidence.records
    experiments = {record.experiment for record in records}
    scales = dict.fromkeys(group.scale for group in evidence.groups)
    said = (
        f"{len(records)} runs of {len(experiments)} experiments at scale {', '.join(scales)}; "
        f"{duration(sum(record.cpu_seconds for record in records))} of CPU time; the last run finished "
        f"{max(record.finished for record in records).replace('T', ' ').replace('Z', ' UTC')}."
    )
    toggle = element(
        "button", "Theme: auto", {"type": "button", "id": "theme", "class": "theme", "hidden": ""}
    )
    return element("header", [toggle, element("h1", TITLE), element("p", said, {"class": "lead"})])


def contents(parts: list[Section]) -> Markup:
    def entry(anchor: str, words: str, below: Markup = EMPTY) -> Markup:
        return element("li", [element("a", words, {"href": f"#{anchor}"}), below])

    items = []
    for part in parts:
        below = element("ul", [entry(*one) for one in part.entries]) if part.entries else EMPTY
        items.append(entry(part.anchor, part.title, below))
    folded = element("details", [element("summary", "Contents"), element("ul", items)], {"open": ""})
    return element("nav", folded, {"aria-label": "Contents"})


def section_markup(part: Section) -> Markup:
    return element("section", [element("h2", part.title), part.body], {"id": part.anchor})


def complaint_notice(evidence: Evidence) -> Markup:
    """What was left out, in front of everything that was not."""
    said = evidence.complaints
    if not said:
        return EMPTY
    listed = [element("li", one) for one in said[:SHOWN]]
    if len(said) > SHOWN:
        listed.append(element("li", f"… and {len(said) - SHOWN} more"))
    words = (
        f"{len(said)} {'remark' if len(said) == 1 else 'remarks'} on the records; everything else is shown."
    )
    return element(
        "div", [element("strong", words), element("ul", listed)], {"class": "notice", "role": "note"}
    )


def footer(evidence: Evidence) -> Markup:
    codes = sorted({record.commit or "unknown" for record in evidence.records})
    return element(
        "footer",
        join(
            [
                "Made by ",
                element("code", "geq report"),
                f" from runs of code {', '.join(c[:10] for c in codes)}.",
            ]
        ),
    )
