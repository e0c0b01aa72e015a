"""``geq demo`` as it is typed: what it refuses at once, and a server that starts and stops."""

from __future__ import annotations

import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from geq.cli import main
from geq.errors import GeqError, OptionError
from geq_demo.server import checked_port


def test_busy_port_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["demo", "patches", "--runs", str(runs), "--port", str(port)]) == 2
        message = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1" in message
    assert "--port 0" in message


def test_wrong_run_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str], runs: Path) -> None:
    assert main(["demo", "pathces", "--runs", str(runs), "--port", "0"]) == 2
    assert "did you mean 'patches'" in capsys.readouterr().err


def test_misspelt_option_is_named_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--prot", "1"]) == 2
    assert "did you mean '--port'" in capsys.readouterr().err


def test_port_and_host_are_checked() -> None:
    with pytest.raises(OptionError, match=r"port must lie in 0\.\.65535"):
        checked_port("127.0.0.1", 70_000)
    with pytest.raises(GeqError, match="cannot be listened on"):
        checked_port("192.0.2.1", 0)  # an address that no machine has
    assert checked_port("127.0.0.1", 0) > 0


@pytest.mark.slow
def test_server_starts_answers_and_stops(start: Any, tmp_path: Path) -> None:
    with start("plain", "layers", TMPDIR=str(tmp_path)) as demo:
        assert demo.address.startswith("http://127.0.0.1:")
        assert len(demo.lines) == 1
        assert demo.lines[0].startswith("plain and layers: ")
        with urllib.request.urlopen(demo.address, timeout=60) as answer:
            assert b"geq: equilibrium models" in answer.read()
        assert list(tmp_path.glob("geq-demo-*"))
        demo.process.send_signal(signal.SIGTERM)
        assert demo.process.wait(60) == 0
        assert not list(tmp_path.glob("geq-demo-*"))  # nor what was uploaded


@pytest.mark.slow
def test_host_for_everybody_is_warned_of(start: Any) -> None:
    with start("layers", "--host", "0.0.0.0") as demo:
        assert demo.lines[0].startswith("warning: everybody who reaches 0.0.0.0")
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(60) == 0


@pytest.mark.slow
def test_without_anything_it_trains_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import geq_demo.network_choice
    from geq.training.train_options import TrainOptions
    from geq_demo.command import default_or_trained

    monkeypatch.setattr(geq_demo.network_choice, "shipped_names", list)
    quick = TrainOptions(runs=str(tmp_path / "runs"), epochs=1, train_size=64, threads=1, picture=False)
    folder = default_or_trained(quick)
    assert folder.result() is not None
    assert default_or_trained(quick) == folder  # what is there is not trained again
