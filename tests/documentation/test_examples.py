"""Every Python example of the documentation runs as it stands, block after block."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE_BY_THE_SITE = {"report.html"}
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = BLOCK.findall(page.read_text())
    if page.parent == ROOT:
        assert blocks, f"{page.name} has lost its examples"
    torch.manual_seed(0)
    namespace: dict[str, Any] = {}
    for block in blocks:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Deprecated calls of torch.onnx.export to the rest of torch, which no caller can avoid.
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
            exec(compile(block, str(page), "exec"), namespace)
    assert "Traceback" not in capsys.readouterr().out


def test_readme_is_short_and_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 600
    (block,) = BLOCK.findall(page)
    exec(compile(block, "README.md", "exec"), {})
    assert f"```text\n{capsys.readouterr().out}```" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert target in MADE_BY_THE_SITE or (page.parent / target).exists(), f"{page.name} links to {target}"
