"""One HTML page that holds everything: it reads no other file and asks no server."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from geq.errors import MissingExtraError
from geq.number_format import duration
from geq.safe_parsing import printable
from geq_papers.report.evidence import Evidence
from geq_papers.report.section import Section
from geq_papers.report.section.claim import summary
from geq_papers.report.section.cost import costs
from geq_papers.report.section.environment import commit, environment
from geq_papers.report.section.erratum import errata
from geq_papers.report.section.result import results
from geq_papers.report.section.run import runs

if TYPE_CHECKING:
    import jinja2

TITLE = "Equilibrium models: what the papers claim, and what we find"


def sections(evidence: Evidence, run_folder: str | Path | None = None) -> list[Section]:
    """Return the sections in the order of the page."""
    analysed = None if run_folder is None else runs(run_folder)
    return [
        summary(evidence),
        *results(evidence),
        *([analysed] if analysed is not None else []),
        costs(evidence),
        errata(),
        environment(evidence),
    ]


def page(evidence: Evidence, parts: list[Section]) -> str:
    """Return the document. The same records give the same bytes."""
    style, script = (asset(name) for name in ("style.css", "script.js"))
    records = evidence.records
    finished = max(record.finished for record in records).replace("T", " ").replace("Z", " UTC")
    return templates().get_template("page.html.j2").render(
        title=TITLE,
        style=style,
        script=script,
        policy=(
            f"default-src 'none'; img-src data:; style-src '{digest(style)}'; script-src '{digest(script)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        parts=parts,
        records=records,
        scales=list(dict.fromkeys(group.scale for group in evidence.groups)),
        time=duration(sum(record.cpu_seconds for record in records)),
        finished=finished,
        complaints=evidence.complaints,
        commits=sorted({commit(record) for record in records}),
    )  # fmt: skip


@cache
def templates() -> jinja2.Environment:
    """Return the templates of this package; every text in them is escaped that is not markup already."""
    try:
        import jinja2
    except ImportError as problem:
        raise MissingExtraError.naming("jinja2", "train", "geq report") from problem
    found = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=without_control,
    )
    found.filters["place"] = lambda value: f"{value:.1f}"
    return found


def without_control(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def asset(name: str) -> Markup:
    """Return a file of this package, which may stand in the page as it is."""
    return Markup((resources.files("geq_papers.report") / name).read_text(encoding="utf-8"))


def digest(text: str) -> str:
    """Return the hash by which the browser accepts our style and script, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
