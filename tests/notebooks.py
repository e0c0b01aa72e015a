"""Run the code cells of a notebook in one namespace, as Jupyter does, and keep what they print and draw.

``python tests/notebooks.py examples/*.ipynb`` writes the outputs into the notebooks again.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

PICTURE_DPI = 70


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def run(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell, in the order of the notebook."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for number, cell in enumerate(code_cells(read(path)), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source(cell), f"{path.name}, cell {number}", "exec"), namespace)
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            outputs.append(
                {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            )
        for figure in map(plt.figure, plt.get_fignums()):
            drawn = io.BytesIO()
            figure.savefig(drawn, format="png", dpi=PICTURE_DPI, bbox_inches="tight")
            picture = base64.b64encode(drawn.getvalue()).decode()
            outputs.append({"data": {"image/png": picture}, "metadata": {}, "output_type": "display_data"})
        plt.close("all")
        found.append(outputs)
    return found


def printed_text(outputs: list[dict[str, Any]]) -> str:
    return "".join("".join(one["text"]) for one in outputs if one["output_type"] == "stream")


def pictures(outputs: list[dict[str, Any]]) -> list[bytes]:
    return [base64.b64decode(one["data"]["image/png"]) for one in outputs if "data" in one]


def comparable(cell: dict[str, Any], text: str) -> str:
    """Return the text; of a cell with the tag "varies" without its numbers, which differ between machines."""
    varies = "varies" in cell["metadata"].get("tags", ())
    return re.sub(r"[\d.]+", "0", text) if varies else text


def record(path: Path) -> None:
    notebook = read(path)
    for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(path), strict=True), 1):
        cell["execution_count"] = number
        cell["outputs"] = outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        record(Path(name))
