"""The tests' own guard: what would reach beyond this machine is refused, here and in child processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "tried"
    monkeypatch.setenv("GEQ_NETWORK_LOG", str(log))
    return log


def test_a_foreign_address_is_refused(own_log: Path) -> None:
    with socket.socket() as sock, pytest.raises(ConnectionRefusedError, match="this machine only"):
        sock.connect(("192.0.2.1", 80))
    with pytest.raises(ConnectionRefusedError):
        socket.getaddrinfo("example.org", 443)
    assert own_log.read_text().split() == ["192.0.2.1", "example.org"]


def test_a_child_is_refused_as_well(own_log: Path) -> None:
    script = "import urllib.request; urllib.request.urlopen('http://192.0.2.1/')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "this machine only" in done.stderr
    assert own_log.read_text().split() == ["192.0.2.1"]


def test_loopback_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(("localhost", server.getsockname()[1]), timeout=5).close()
    assert os.environ["GEQ_NETWORK_LOG"]
