"""Values that no control of the demo has, sent to the real server: each is refused in a sentence."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from stress.demo_visitor import Visitor

from demo_server import refused_words, visit
from geq_demo.server import FAILED

pytest.importorskip("gradio")

pytestmark = pytest.mark.slow


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    10**6,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x" * 10_000,
    "<script>alert(1)</script>",
    "__class__",
    [],
    [[1]],
    {},
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
]
PYTHON = re.compile(r"Traceback|Error\b|object|<class|NoneType|argument|unhashable|index out|pydantic|\.py\b")


def check_words(words: str, value: Any) -> None:
    """A refusal is a sentence for people: what must hold, and what came."""
    assert not PYTHON.search(words), (value, words)
    assert words != FAILED, value
    assert "<script" not in words
    assert len(words) < 1000
    if words:
        assert re.search(r"must|unknown|cannot", words), (value, words)


@pytest.mark.parametrize("place", range(12))
def test_hostile_values_of_every_control_are_refused_in_words(address: str, place: int) -> None:
    async def ask(visitor: Visitor) -> None:
        function, good = visitor.page.disturbed(0, 0, "none", None)
        for value in HOSTILE:
            data = [*good[:place], value, *good[place + 1 :]]
            check_words(await refused_words(visitor, function, data), value)
        assert await refused_words(visitor, function, good) == ""

    visit(address, ask)


@pytest.mark.parametrize("place", range(10))
def test_hostile_values_of_the_step_slider_are_refused_in_words(address: str, place: int) -> None:
    async def ask(visitor: Visitor) -> None:
        function, good = visitor.page.disturbed(0, 0, "none", 1)
        for value in HOSTILE:
            data = [*good[:place], value, *good[place + 1 :]]
            check_words(await refused_words(visitor, function, data), value)

    visit(address, ask)


def functions_of(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The functions of the page by what starts them."""
    names = {part["id"]: part["props"].get("elem_id") for part in config["components"]}
    return {
        f"{names[target]} {event}": function
        for function in config["dependencies"]
        for target, event in function["targets"]
        if target is not None and names.get(target)
    }


def test_hostile_values_of_every_function_are_refused_in_words(address: str) -> None:
    """Every event that starts it: each value, too few, too many, and clicks on missing images."""

    async def ask(visitor: Visitor) -> int:
        functions = functions_of((await visitor.client.get("/config")).json())
        asked = 0
        for function in functions.values():
            number = len(function["inputs"])
            for value in HOSTILE:
                for data in ([value] * number, [value] * (number - 1), [value] * (number + 5)):
                    check_words(await refused_words(visitor, function["id"], data, value), value)
                    asked += 1
        click = functions["gallery select"]["id"]
        for event in [*HOSTILE, *({"index": value, "value": None} for value in HOSTILE)]:
            words = await refused_words(visitor, click, ["layers"], event)
            check_words(words, event)
            assert words, event
        assert await refused_words(visitor, click, ["layers"], {"index": 3, "value": None}) == ""
        return asked

    assert visit(address, ask) > 300


def test_uploads_are_read_from_their_folder_only(address: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    Image.new("RGB", (8, 8)).save(secret)

    async def ask(visitor: Visitor) -> None:
        picture = io.BytesIO()
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(picture, "PNG")
        mine = (await visitor.upload("mine.png", picture.getvalue())).json()[0]
        about = {"meta": {"_type": "gradio.FileData"}, "orig_name": "a.png"}
        foreign = [
            str(secret),
            "/etc/passwd",
            f"{mine}/../../../secret",
            "http://127.0.0.1:9/x.png",
            "",
            7,
            None,
        ]
        for path in foreign:
            data = [{**about, "path": path}, "layers"]
            words = await refused_words(visitor, visitor.page.take, data)
            if not words:
                _, words, _ = await visitor.ask(visitor.page.take, data)
            check_words(words, path)
            assert "must" in words, path
        _, words, _ = await visitor.ask(visitor.page.take, [{**about, "path": mine}, "layers"])
        assert words == ""

    visit(address, ask)
