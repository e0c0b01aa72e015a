"""Nothing that comes from a visitor or a network becomes markup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from geq.errors import InputError
from geq_demo.markup import Markup, element, escape, join
from markup_reader import READABLE, read

quickly = settings(deadline=None, max_examples=40)


@quickly
@given(READABLE, READABLE)
def test_text_and_attributes_survive_as_they_were(words: str, title: str) -> None:
    found = read(element("p", words, {"title": title}))
    assert found.tags == ["p"]
    assert found.words == words
    assert found.attributes == [("title", title)]


def test_markup_is_escaped_once() -> None:
    inner = element("b", "<")
    assert inner == "<b>&lt;</b>"
    assert element("p", [inner, "<i>"]) == "<p><b>&lt;</b>&lt;i&gt;</p>"
    assert join(["<", Markup("<br>")]) == "&lt;<br>"
    assert escape("a\x00b\x1b[0m") == "a\ufffdb\ufffd[0m"


def test_an_element_has_a_name_of_its_own() -> None:
    with pytest.raises(InputError, match="letters and digits"):
        element("p onclick=x", "")
