from __future__ import annotations

import sys
from pathlib import Path

import pytest

from geq.data.dataset_options import data_root


def test_an_explicit_folder_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEQ_DATA", "/from/environment")
    assert data_root("/explicit") == Path("/explicit")
    assert data_root() == Path("/from/environment")


@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {"XDG_CACHE_HOME": "/cache"}, "/cache/geq/data"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/geq/data"),
        ("linux", {}, "~/.cache/geq/data"),
        ("darwin", {}, "~/Library/Caches/geq/data"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/geq/data"),
        ("win32", {}, "~/AppData/Local/geq/data"),
    ],
)
def test_the_default_is_the_platforms_cache(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEQ_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert data_root() == Path(expected).expanduser()


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEQ_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_root() == Path("/cache/geq/data")
