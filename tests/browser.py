"""Headless Chromium, driven through its own pipe: no package, no port, and an end to every wait."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

LAUNCH = """
import fcntl, os, sys
kept = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(kept[0], 3)
os.dup2(kept[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The browser expects its pipe at 3 and 4."""

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The program: GEQ_CHROMIUM, or the first that is found."""
    named = os.environ.get("GEQ_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser, with all that it reports.

    Attributes:
        problems: errors and warnings of the console, exceptions, violations of the page's policy.
        requests: every address that was asked for.
    """

    def __init__(self, folder: Path, seconds: float = 60) -> None:
        program = chromium()
        assert program is not None
        self.ends = time.monotonic() + seconds
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.waiting = b""
        self.number = 0
        self.loaded = False
        command_read, self.command = os.pipe()
        self.answer, answer_write = os.pipe()
        options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"
        quiet = "--no-first-run --disable-background-networking --disable-component-update"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", LAUNCH, str(command_read), str(answer_write), program),
                *options.split(),
                *quiet.split(),
                f"--user-data-dir={folder / 'profile'}",
            ],
            pass_fds=(command_read, answer_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        self.session: str | None = None
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.command)
        os.close(self.answer)
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.loaded = False
        self.call("Page.navigate", url=path.as_uri())
        while not self.loaded:
            self.hear()

    def evaluate(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        pressed: dict[str, Any] = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": {"Enter": 13, "Tab": 9}[key],
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def prefer(self, scheme: str) -> None:
        """As a system that is set to light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int = 900) -> None:
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.command, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def hear(self) -> dict[str, Any]:
        """The next message; events are noted."""
        while b"\0" not in self.waiting:
            left = self.ends - time.monotonic()
            ready = select.select([self.answer], [], [], max(left, 0))[0]
            read = os.read(self.answer, 1 << 16) if ready else b""
            if not read:
                raise TimeoutError("the browser does not answer")
            self.waiting += read
        line, _, self.waiting = self.waiting.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self.note(message.get("method", ""), message.get("params", {}))
        return message

    def note(self, method: str, details: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(details["args"]))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
