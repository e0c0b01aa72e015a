"""The page on a port of this machine."""

from __future__ import annotations

import ctypes
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import Any, NoReturn

from geq.errors import GeqError, OptionError
from geq_demo.input_image import LARGEST_FILE
from geq_demo.session import Session

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts that only programs of this machine reach."""
ARENA_MAX = -8
"""``M_ARENA_MAX`` of glibc's malloc.h."""
VISITORS = 300
"""Number of stored sessions of about 0.3 MB each; beyond it the one unused for longest is dropped."""
SETTINGS = {
    "GRADIO_ANALYTICS_ENABLED": "False",  # nothing is sent
    "GRADIO_RUN_HISTORY": "False",  # nor kept in the browser
    "GRADIO_ANALYTICS_MAX_EVENTS": "100",  # statistics that nobody sees
}
"""Of gradio, which reads some when it is loaded, some later."""


def checked_port(host: str, port: int) -> int:
    """A port that can be listened on: ``port``, or for 0 any free one; if not, an error with what to do."""
    if not 0 <= port <= 65535:
        raise OptionError(f"port must lie in 0..65535 (0: any free one): got {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as problem:
        raise OptionError(
            f"host must be an address of this machine: got {host!r} ({problem.strerror}); leave --host out, "
            "or use 0.0.0.0 for all of its addresses"
        ) from problem
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as problem:
            raise GeqError(
                f"port {port} of {host} must be free for the page, and cannot be listened on "
                f"({problem.strerror}): stop the program that uses it (another geq demo?), or choose "
                "another port with --port, such as --port 0 for any free one"
            ) from problem
        return int(probe.getsockname()[1])


def share_memory_among_threads() -> None:
    """Tell glibc to keep one pool of memory instead of one for every few threads; elsewhere nothing happens.

    Each answer is given by another thread of gradio's. With a pool each they hold on to what the largest
    answer took, so that a server under load grows for as long as it runs.
    """
    with suppress(AttributeError, OSError, TypeError):  # no glibc
        ctypes.CDLL(None).mallopt(ARENA_MAX, 1)


@contextmanager
def no_downloads() -> Iterator[None]:
    """Addresses in the place of an upload are refused, instead of fetched: nothing asks the network.

    gradio fetches through these two, and asks a name server of the internet on the way.
    """
    import safehttpx

    async def refuse(*given: Any, **options: Any) -> NoReturn:
        raise GeqError("the picture must be a file that is uploaded: got an address; save it, and upload it")

    before = (safehttpx.get, safehttpx.async_validate_url)
    safehttpx.get, safehttpx.async_validate_url = refuse, refuse
    try:
        yield
    finally:
        safehttpx.get, safehttpx.async_validate_url = before


@contextmanager
def numbers_kept() -> Iterator[None]:
    """A component that was changed keeps its number among the components of a visitor's page.

    gradio stores a changed component, say a slider with another end, in the place of the old one, but with a
    number of its own, under which it is stored once more when it is next used: every answer would stay.
    """
    from gradio.state_holder import SessionState

    store = SessionState.__setitem__

    def numbered(self: SessionState, key: int, value: Any) -> None:
        if getattr(value, "_id", key) != key:
            value._id = key
        store(self, key, value)

    SessionState.__setitem__ = numbered  # type: ignore[method-assign]
    try:
        yield
    finally:
        SessionState.__setitem__ = store  # type: ignore[method-assign]


UNREADABLE = "Each control of the page must have one value of its kind: got others; reload the page."
FAILED = "The page could not answer that: reload it, and try again. The server's log has the reason."


def answer_in_words(page: Any) -> None:
    """Let every failure of the page be a sentence: ours where the values are wrong, and never Python's."""
    import gradio

    read, process = page.preprocess_data, page.process_api

    async def reading(*given: Any, **options: Any) -> Any:
        try:
            return await read(*given, **options)
        except (GeqError, gradio.Error):
            raise
        except Exception as problem:  # what no page sends, so nothing for the log
            raise gradio.Error(UNREADABLE, print_exception=False) from problem

    async def processing(*given: Any, **options: Any) -> Any:
        try:
            return await process(*given, **options)
        except gradio.Error:
            raise
        except GeqError as problem:
            raise gradio.Error(escape(str(problem), quote=False), print_exception=False) from problem
        except Exception as problem:
            raise gradio.Error(FAILED) from problem

    page.preprocess_data, page.process_api = reading, processing


@contextmanager
def served(
    session: Session, first: str, second: str | None, host: str, port: int, browser: bool = False
) -> Iterator[str]:
    """The page while inside; gives its address. Uploaded files are gone afterwards."""
    share_memory_among_threads()
    os.environ.update(SETTINGS)
    with (
        tempfile.TemporaryDirectory(prefix="geq-demo-") as folder,
        environment("GRADIO_TEMP_DIR", folder),
        environment("GRADIO_EXAMPLES_CACHE", folder),  # the other folder whose files gradio serves
        no_downloads(),
        numbers_kept(),
    ):
        from starlette.middleware import Middleware

        from geq_demo.page import build_page, style, theme
        from geq_demo.request_guard import Guard
        from geq_demo.upload_limits import FOLDER, UploadLimit

        page = build_page(session, first, second)
        answer_in_words(page)
        # Apart from the thumbnails of the galleries, which must not be removed with the oldest uploads.
        uploads = Path(folder, FOLDER)
        uploads.mkdir()
        guards = [Middleware(Guard, host=host), Middleware(UploadLimit, folder=uploads)]
        try:
            _, address, _ = page.launch(
                server_name=host,
                server_port=port,
                share=False,
                quiet=True,
                inbrowser=browser,
                prevent_thread_lock=True,
                show_error=True,
                max_file_size=LARGEST_FILE,
                state_session_capacity=VISITORS,
                footer_links=[],
                ssr_mode=False,
                pwa=False,
                mcp_server=False,
                enable_monitoring=False,
                theme=theme(),
                css=style(),
                app_kwargs={"middleware": guards},
            )
            page.app.uploaded_file_dir = str(uploads)
            yield address
        finally:
            page.close(verbose=False)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
