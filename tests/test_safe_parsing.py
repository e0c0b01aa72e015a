from __future__ import annotations

import pytest

from geq.safe_parsing import LARGEST_YAML, parse_json, parse_yaml, short


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"}', "surrogates not allowed"),
        ("{", "Expecting"),
        ("1" * 5000, "4300 digits"),
    ],
    ids=["deep", "half a character", "open", "digits"],
)
def test_whatever_is_wrong_with_json_is_a_value_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_json(text)


def test_characters_that_were_escaped_are_kept() -> None:
    assert parse_json('"\\ud83d\\ude00 \\u00e9"') == "😀 é"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("a: &x [1]\nb: *x", "refers to another place"),
        ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: 2025-99-99", "month must be in"),
        ("a: [", "expected the node content"),
        ("a: " + "x" * LARGEST_YAML, "more than the"),
        ("a: \x00", "special characters"),
    ],
    ids=["deep", "reference", "object", "date", "open", "long", "control"],
)
def test_whatever_is_wrong_with_yaml_is_a_value_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_yaml(text)


@pytest.mark.parametrize(
    "value",
    [10**5000, ["x" * 1000] * 1000, [[[[[[[]]]]]]], {"a": {"b": {"c": {}}}}],
    ids=["number", "list", "nested", "object"],
)
def test_a_value_in_a_message_is_short(value: object) -> None:
    assert len(short(value)) < 1500
