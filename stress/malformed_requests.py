"""Requests that no browser sends: broken, hostile, too large, too slow, or for the machine's own files."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import numpy as np
from PIL import Image

from stress.demo_visitor import API, Visitor

LARGE = 12 * 2**20
"""Bytes of a file that is too large for the page."""
Attack = Callable[[], Awaitable[httpx.Response | bytes | None]]


def status_of(answer: httpx.Response | bytes | None) -> int | str:
    if isinstance(answer, httpx.Response):
        return answer.status_code
    found = re.match(rb"HTTP/1.1 (\d{3})", answer or b"")
    return int(found[1]) if found else "taken, and answered" if answer else "closed"


@dataclass
class Malformed:
    """Attacks on one server; ``secret`` is a file next to it that must not be served."""

    visitor: Visitor
    address: str
    secret: Path
    statuses: dict[str, int | str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def attacks(self) -> dict[str, Attack]:
        kinds = self.questions, self.files, self.uploads, self.methods, self.connections
        return {name: attack for kind in kinds for name, attack in kind().items()}

    async def try_all(self) -> int:
        """Return the number of attacks; what went wrong is in :attr:`wrong`."""
        attacks = self.attacks()
        for name, attack in attacks.items():
            try:
                answer = await asyncio.wait_for(attack(), 60)
            except asyncio.TimeoutError:
                self.wrong.append(f"{name}: no answer within a minute")
                continue
            except (httpx.HTTPError, OSError) as closed:
                self.statuses[name] = type(closed).__name__  # the server hung up, which is an answer
                continue
            content = answer.content if isinstance(answer, httpx.Response) else answer or b""
            self.statuses[name] = status_of(answer)
            if name.startswith("file:") and self.statuses[name] == 200:
                self.wrong.append(f"{name}: was served")
            if self.secret.read_bytes() in content or b"root:x:0" in content:
                self.wrong.append(f"{name}: served a file of the machine")
        return len(attacks)

    def questions(self) -> dict[str, Attack]:
        """Return requests to the queue with bodies that make no sense."""
        page, session = self.visitor.page, self.visitor.session
        values = page.disturbed(0, 0, "none", None)[1]
        good: dict[str, Any] = {"data": values, "fn_index": page.refresh}
        bodies: dict[str, Any] = {
            "nothing": b"",
            "no JSON": b"{noise",
            "not UTF-8": b"\xff\xfe\x00",
            "a list": [],
            "a number": 7,
            "no data": {"fn_index": page.refresh},
            "data of another type": {**good, "data": "everything"},
            "too few values": {**good, "data": [1]},
            "too many values": {**good, "data": [0] * 5000},
            "wrong types": {**good, "data": [{}, [], "x", None, 3.5, {}, 1, 2, 3, 4, 5, 6]},
            "numbers out of range": {**good, "data": page.disturbed(10**9, -(10**9), "none", None)[1]},
            "an unknown corruption": {**good, "data": page.disturbed(0, 0, "../../etc/passwd", None)[1]},
            "an unknown network": {**good, "data": [*values[:6], "../..", "solver", 0, "x", "y", 0]},
            "no such function": {**good, "fn_index": 10**9},
            "a negative function": {**good, "fn_index": -1},
            "a function by words": {**good, "fn_index": "os.system"},
            "no session": {**good, "session_hash": None},
            "a session of another type": {**good, "session_hash": {"a": 1}},
            "a long session": {**good, "session_hash": "x" * 10_000},
            "not a number": json.dumps({**good, "data": [float("nan")] * 12}).encode(),
            "deeply nested": b'{"data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "30 MB": {**good, "data": ["x" * 30_000_000]},
            "a file of the machine": self.taking("/etc/passwd"),
            "a file beside the server": self.taking(str(self.secret)),
            "a file by its way up": self.taking("../../../../../../../../etc/passwd"),
            "a file from elsewhere": self.taking("http://127.0.0.1:9/x.png"),
        }

        def posting(body: Any) -> Attack:
            raw = body if isinstance(body, bytes) else None
            if isinstance(body, dict) and "session_hash" not in body:
                body = {**body, "session_hash": session}
            content = raw if raw is not None else json.dumps(body).encode()
            return partial(self.asked, content)

        return {f"question: {name}": posting(body) for name, body in bodies.items()}

    def taking(self, path: str) -> dict[str, Any]:
        """Return a question about an upload that never was one."""
        given = {"path": path, "meta": {"_type": "gradio.FileData"}, "orig_name": "digit.png"}
        return {"data": [given, self.visitor.page.model], "fn_index": self.visitor.page.take}

    async def asked(self, content: bytes) -> httpx.Response | bytes:
        """Post a question; return what came of it if it was let into the queue."""
        header = {"content-type": "application/json"}
        joined = await self.visitor.client.post(f"{API}/queue/join", content=content, headers=header)
        if joined.status_code != 200:
            return joined
        came = b""
        where = {"session_hash": json.loads(content)["session_hash"]}
        async with self.visitor.client.stream("GET", f"{API}/queue/data", params=where) as stream:
            async for line in stream.aiter_lines():
                came += line.encode()
                if "process_completed" in line or "unexpected_error" in line:
                    break
        return came

    def files(self) -> dict[str, Attack]:
        """Return paths to what is not on offer."""
        secret = str(self.secret)
        wanted = ["/etc/passwd", secret, "/proc/self/environ", "/proc/self/cmdline", "..", "/", "~/.profile"]
        ways = [f"{API}/file={path}" for path in wanted]
        ways += [f"{API}/file=" + quote(path, safe="") for path in wanted[:2]]
        ways += [f"{API}/file/{path}" for path in wanted[:2]]
        up = "../" * 12
        for prefix in (f"{API}/file=", "/static/", "/assets/", "/svelte/", f"{API}/proxy=", "/theme/"):
            for climb in (up, up.replace("/", "%2f"), up.replace(".", "%2e"), "..\\" * 12, "....//" * 12):
                ways.append(f"{prefix}{climb}etc/passwd")
        ways += [
            f"{API}/proxy=http://127.0.0.1:22/",
            f"{API}/proxy=file:///etc/passwd",
            f"{API}/file=file:///etc/passwd",
            f"{API}/file=/etc/passwd%00.png",
            f"{API}/custom_component/1/2/3/{up}etc/passwd",
            f"{API}/stream/x/y/z/playlist.m3u8",
            f"{API}/run-history/records/x/y/assets/z",
            f"{API}/monitoring",
            f"{API}/vibe-code",
        ]
        place = str(self.secret.parent), quote(str(self.secret.parent), safe="")
        shown = [way.replace(place[0], "FOLDER").replace(place[1], "FOLDER") for way in ways]
        return {f"file: {name}": partial(self.raw_get, way) for name, way in zip(shown, ways, strict=True)}

    async def raw_get(self, way: str) -> bytes:
        """Send the path as it is: a client would tidy it first."""
        head = f"GET {way} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        return await self.spoken(head.encode())

    async def spoken(self, words: bytes, half_close: bool = False, patience: float = 10.0) -> bytes:
        """Return the answer to these bytes on a fresh connection."""
        place = urlsplit(self.address)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            writer.write(words)
            await writer.drain()
            if half_close:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(2**22), patience)
        except asyncio.TimeoutError:
            return b""  # it waits for the rest, as it should
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def uploads(self) -> dict[str, Attack]:
        """Return files that are no pictures, or have no valid name."""
        picture = io.BytesIO()
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(picture, "PNG")
        given: dict[str, tuple[str, bytes]] = {
            "nothing": ("a.png", b""),
            "text": ("a.png", b"no picture"),
            "half a picture": ("a.png", picture.getvalue()[:40]),
            "a pickle": ("a.png", b"\x80\x04cos\nsystem\n(S'true'\ntR."),
            "a page": ("a.html", b"<script>alert(1)</script>"),
            "a way up": ("../../../../tmp/escaped.png", picture.getvalue()),
            "an absolute name": ("/etc/escaped.png", picture.getvalue()),
            "a long name": ("x" * 5000 + ".png", picture.getvalue()),
            "no name": ("", picture.getvalue()),
            "zero bytes in the name": ("a\x00.png", picture.getvalue()),
            "too large": ("a.png", b"\x00" * LARGE),
        }
        formless = partial(self.visitor.client.post, f"{API}/upload", content=b"x" * 100)
        found: dict[str, Attack] = {f"upload: {k}": partial(self.uploaded, *one) for k, one in given.items()}
        return {**found, "upload: no form": formless}

    async def uploaded(self, name: str, content: bytes) -> httpx.Response | bytes:
        """Upload a file; if it was taken, show it to the network."""
        answer = await self.visitor.upload(name, content)
        if answer.status_code != 200:
            return answer
        question = {**self.taking(answer.json()[0]), "session_hash": self.visitor.session}
        return await self.asked(json.dumps(question).encode())

    def methods(self) -> dict[str, Attack]:
        client = self.visitor.client
        places = ("/", "/config", f"{API}/queue/join", f"{API}/upload", f"{API}/file=/etc/passwd")
        found: dict[str, Attack] = {
            f"method: {method} {place}": partial(client.request, method, place)
            for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
            for place in places
        }
        for place, body in (
            ("cancel", {"session_hash": "nobody", "fn_index": 0, "event_id": "nothing"}),
            ("reset", {"event_id": "nothing"}),
            ("call/refresh", {"data": []}),
            ("run/predict", {"data": [], "fn_index": 0}),
        ):
            found[f"unknown: {place}"] = partial(client.post, f"{API}/{place}", json=body)
        return found

    def connections(self) -> dict[str, Attack]:
        join = f"POST {API}/queue/join HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
        spoken: dict[str, tuple[bytes, bool]] = {
            "half a line": (b"GET / HT", True),
            "half a header": (b"GET / HTTP/1.1\r\nHost:", True),
            "half a body": (join + b"Content-Length: 1000\r\n\r\n{", True),
            "a lying length": (join + b"Content-Length: -5\r\n\r\n{}", False),
            "two lengths": (join + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}", False),
            "a bad chunk": (join + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n", False),
            "noise": (bytes(range(256)) * 64, True),
            "a megabyte of header": (b"GET / HTTP/1.1\r\nX: " + b"a" * 2**20 + b"\r\n\r\n", False),
            "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, True),
            "silence": (b"", False),
        }
        return {
            **{f"connection: {name}": partial(self.spoken, *one, 3.0) for name, one in spoken.items()},
            "connection: fifty that wait": self.many_idle,
            "connection: unknown session": partial(self.raw_get, f"{API}/queue/data?session_hash=nobody"),
            "connection: heartbeat left at once": partial(self.raw_get, f"{API}/heartbeat/nobody"),
        }

    async def many_idle(self) -> bytes:
        await asyncio.gather(*(self.spoken(b"GET / HTTP/1.1\r\n", patience=3.0) for _ in range(50)))
        return b""
