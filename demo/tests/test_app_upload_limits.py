"""Limits of uploads: each request, all requests in progress, and all stored files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from stress.demo_visitor import API, Visitor

from demo_server import refused_words, uploads_in, visit
from geq_demo.input_image import LARGEST_FILE
from geq_demo.upload_limits import FILES, LARGEST_QUESTION, RECEIVED, STORED

pytest.importorskip("gradio")

pytestmark = pytest.mark.slow


def test_uploads_are_limited_in_total_and_the_oldest_go_first(address: str, temporary: Path) -> None:
    async def flood(visitor: Visitor) -> list[str]:
        paths = []
        for number in range(11):
            content = bytes([number]) * (LARGEST_FILE - 1000)
            answer = await visitor.upload(f"{number}.png", content)
            assert answer.status_code == 200
            paths += answer.json()
            assert sum(path.stat().st_size for path in uploads_in(temporary)) <= STORED
        given = {"meta": {"_type": "gradio.FileData"}, "orig_name": "0.png", "path": paths[0]}
        _, message, _ = await visitor.ask(visitor.page.take, [given, "layers"])
        assert "0.png is not on the server any more: upload it again" in message
        return paths

    paths = visit(address, flood)
    assert [Path(path).exists() for path in paths] == [False] * 6 + [True] * 5


def test_many_small_uploads_are_limited_in_number(address: str, temporary: Path) -> None:
    async def flood(visitor: Visitor) -> None:
        for number in range(FILES + 5):
            assert (await visitor.upload("a.png", str(number).encode())).status_code == 200

    visit(address, flood)
    assert len(uploads_in(temporary)) == FILES


def test_several_files_of_one_request_are_limited_together(address: str, temporary: Path) -> None:
    async def flood(visitor: Visitor) -> tuple[int, str]:
        files = [("files", (f"{number}.png", bytes(LARGEST_FILE // 2))) for number in range(3)]
        answer = await visitor.client.post(f"{API}/upload", files=files)
        return answer.status_code, answer.text

    before = uploads_in(temporary)
    assert visit(address, flood) == (413, "A file must not be larger than 10 MB: make it smaller first.")
    assert set(uploads_in(temporary)) <= set(before)


def test_files_under_other_names_do_not_pile_up(address: str, temporary: Path) -> None:
    """gradio writes each file of a form, and forgets those that are not called files."""

    async def flood(visitor: Visitor) -> None:
        for number in range(8):
            given = {"other": ("a.png", bytes([number]) * (LARGEST_FILE - 1000))}
            await visitor.client.post(f"{API}/upload", files=given)

    visit(address, flood)
    assert sum(path.stat().st_size for path in uploads_in(temporary)) <= STORED


def test_uploads_on_their_way_are_limited_and_leave_nothing(address: str, temporary: Path) -> None:
    """Unfinished requests without a length, as slow as their senders like."""

    async def flood(visitor: Visitor) -> list[bytes]:
        before = set(uploads_in(temporary))
        place = urlsplit(address)
        head = (
            f"POST {API}/upload HTTP/1.1\r\nHost: {place.netloc}\r\nTransfer-Encoding: chunked\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        )
        form = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
        body = form + bytes(LARGEST_FILE - 1000)
        answers, connections = [], []
        for _ in range(RECEIVED // LARGEST_FILE + 2):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            connections.append((reader, writer))
            writer.write(head.encode() + f"{len(body):x}\r\n".encode() + body + b"\r\n")
            try:
                await asyncio.wait_for(writer.drain(), 20)
                answers.append(await asyncio.wait_for(reader.read(2**16), 3))
            except asyncio.TimeoutError:  # it waits for the rest
                answers.append(b"")
            except ConnectionError:  # it has hung up
                answers.append(b"HTTP/1.1 413")
        for _, writer in connections:
            writer.close()
        for _ in range(100):
            await asyncio.sleep(0.1)
            if set(uploads_in(temporary)) <= before:
                break
        assert set(uploads_in(temporary)) <= before  # what was broken off is gone
        assert (await visitor.upload("a.png", b"after")).status_code == 200
        return answers

    answers = visit(address, flood)
    assert answers[0] == b""
    assert all(answer.startswith(b"HTTP/1.1 413") for answer in answers[-2:])


def test_large_questions_are_refused(address: str) -> None:
    async def ask(visitor: Visitor) -> str:
        return await refused_words(visitor, visitor.page.refresh, ["x" * LARGEST_QUESTION])

    assert visit(address, ask) == "413 A question must not be larger than 256 kB: reload the page."


def test_paths_that_write_files_and_have_no_control_are_closed(address: str) -> None:
    async def ask(visitor: Visitor) -> list[int]:
        await visitor.ask(*visitor.page.disturbed(0, 0, "none", None))
        link = await visitor.client.get(f"{API}/deep_link", params={"session_hash": visitor.session})
        film = await visitor.client.post(f"{API}/process_recording", files={"video": ("a.mp4", b"x")})
        return [link.status_code, film.status_code]

    assert visit(address, ask) == [404, 404]
