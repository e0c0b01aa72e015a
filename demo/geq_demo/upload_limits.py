"""Limits to what visitors may send: each request, all that are on their way, and all files that are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from geq_demo.input_image import LARGEST_FILE

UPLOAD, FOLDER = "/gradio_api/upload", "uploads"
"""Where files are sent to, and where they are kept, below gradio's temporary folder."""
LARGEST_UPLOAD = LARGEST_FILE + 2**16
"""Bytes of a request with a file; the form around it takes some."""
LARGEST_QUESTION = 2**18
"""Bytes of any other request; those of the page have a few hundred."""
STORED = 5 * LARGEST_FILE
"""Bytes of all uploads that are kept; of more, the oldest are removed."""
FILES = 200
"""Files that are kept."""
RECEIVED = 5 * LARGEST_FILE
"""Bytes of all requests that are on their way at a time."""
UNUSED = ("/gradio_api/deep_link", "/gradio_api/process_recording")
"""Paths of gradio that write files, and that this page has no control for."""


@dataclass
class UploadLimit:
    """ASGI middleware that refuses requests that are too large, and removes the oldest uploads.

    Args:
        app: The application behind it.
        folder: Where uploads are kept, each in a folder of its own.
        receiving: Bytes that are on their way.
    """

    app: ASGIApp
    folder: Path
    receiving: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].rstrip("/") in UNUSED:
            await PlainTextResponse("This page has no such control.", 404)(scope, receive, send)
        elif scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
        else:
            await self.limited(scope, receive, send)

    async def limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on for as long as it is small enough."""
        uploads = scope["path"] == UPLOAD
        size, started = 0, False
        refusal = too_large(Headers(scope=scope).get("content-length", ""), uploads)

        async def counted() -> Message:
            nonlocal size, refusal
            message = await receive()
            length = len(message.get("body", b""))
            size, self.receiving = size + length, self.receiving + length
            refusal = too_large(str(size), uploads)
            if self.receiving > RECEIVED:
                refusal = "Too much is being uploaded at the same time: wait a moment, and upload it again."
            if refusal or (uploads and message["type"] == "http.disconnect"):
                raise MultiPartException(refusal)  # on which gradio removes what it has written
            return message

        async def unless_refused(message: Message) -> None:
            nonlocal started
            if not refusal:
                if not started:
                    self.remove_oldest()  # before the visitor knows of the new file, and sends the next
                started = True
                await send(message)

        try:
            if not refusal:
                with suppress(MultiPartException):
                    await self.app(scope, counted, unless_refused)
        finally:
            self.receiving -= size
            self.remove_oldest()
        if refusal and not started:
            await PlainTextResponse(refusal, 413)(scope, receive, send)

    def remove_oldest(self) -> None:
        """Remove files until the limits hold, those first that were written longest ago."""
        kept = 0
        for number, (_, size, path) in enumerate(sorted(self.files(), reverse=True)):
            kept += size
            if kept > STORED or number >= FILES:
                with suppress(OSError):  # gradio may have removed it
                    path.unlink()
                    if path.parent != self.folder:
                        path.parent.rmdir()

    def files(self) -> Iterator[tuple[float, int, Path]]:
        """Give time, size and path of each file, also of those that are being written, or were left half."""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder, name)
                with suppress(OSError):
                    about = path.lstat()
                    yield about.st_mtime, about.st_size, path


def too_large(length: str, uploads: bool) -> str:
    """Return why a request of so many bytes is refused; empty where it is not.

    >>> too_large("100", uploads=True), too_large("", uploads=True)
    ('', '')
    """
    most = LARGEST_UPLOAD if uploads else LARGEST_QUESTION
    if not length.isdecimal() or int(length[:20]) <= most:
        return ""
    if uploads:
        return f"A file must not be larger than {LARGEST_FILE // 2**20} MB: make it smaller first."
    return f"A question must not be larger than {LARGEST_QUESTION // 2**10} kB: reload the page."
