"""The demo's server serves its own page: not other hosts, and not other sites."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from stress.demo_visitor import API, Visitor

from demo_server import uploads_in, visit
from geq_demo.request_guard import Guard

pytest.importorskip("gradio")

pytestmark = pytest.mark.slow


def ask_with(address: str, headers: list[tuple[str, str]], path: str = "/config") -> tuple[int, str]:
    """Status and body of a request with these headers and no others."""
    place = urlsplit(address)
    assert place.hostname is not None
    words = "".join(f"{name}: {value}\r\n" for name, value in headers)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n{words}Connection: close\r\n\r\n".encode())
        answer = b""
        while block := connection.recv(2**16):
            answer += block
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode(errors="replace")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.5.5.5", "[::1]"])
def test_loopback_is_served_on_any_port(address: str, name: str) -> None:
    for port in ("", f":{urlsplit(address).port}", ":8000"):
        assert ask_with(address, [("Host", name + port)])[0] == 200


FOREIGN = [
    "attacker.example",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "attacker.example@127.0.0.1",
    "127.0.0.1@attacker.example",
    "192.168.1.7",
    "0.0.0.0",
    "[::]",
    "2130706433",
    "127.1",
    "localhost:x",
    "",
]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/config", f"{API}/startup-events", "/theme.css"])
def test_other_hosts_are_refused(address: str, name: str, path: str) -> None:
    status, words = ask_with(address, [("Host", name)], path)
    assert status == 403
    assert words.startswith("This page must be opened under the address that geq demo printed")


def test_two_hosts_are_refused(address: str) -> None:
    hosts = [("Host", "127.0.0.1"), ("Host", "attacker.example")]
    assert ask_with(address, hosts)[0] in (400, 403)


@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example",
        "null",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "file://",
        "http://localhost",
        "",
    ],
)
def test_other_origins_are_refused(address: str, origin: str) -> None:
    """Also those of other pages of this machine: another port is another site."""
    host = urlsplit(address).netloc
    status, words = ask_with(address, [("Host", host), ("Origin", origin)])
    assert status == 403
    assert words.startswith("This page answers its own requests only")
    assert ask_with(address, [("Host", host), ("Origin", f"http://{host}")])[0] == 200


@pytest.mark.parametrize("path", ["/upload", "/queue/join"])
def test_foreign_site_can_neither_ask_nor_upload(address: str, temporary: Path, path: str) -> None:
    async def attack(visitor: Visitor) -> int:
        before = uploads_in(temporary)
        header = {"origin": "http://attacker.example"}
        given = {"files": ("a.png", b"x" * 100)}
        answer = await visitor.client.post(f"{API}{path}", files=given, headers=header)
        assert uploads_in(temporary) == before
        return answer.status_code

    assert visit(address, attack) == 403


@pytest.mark.parametrize(
    ("asked", "header", "server", "served_too"),
    [
        ("0.0.0.0", "192.168.1.7:7860", "192.168.1.7", True),
        ("0.0.0.0", "10.1.2.3", "172.17.0.2", True),  # of a machine around a container
        ("0.0.0.0", socket.gethostname(), "192.168.1.7", True),
        ("0.0.0.0", "attacker.example", "192.168.1.7", False),
        ("::", "[fe80::1]:7860", "fe80::1", True),
        ("192.168.1.7", "192.168.1.7", "192.168.1.7", True),
        ("192.168.1.7", "192.168.1.8", "192.168.1.7", False),
        ("laptop.local", "Laptop.Local:80", "192.168.1.7", True),
        ("laptop.local", "192.168.1.7", "192.168.1.7", True),
        ("laptop.local", "other.local", "192.168.1.7", False),
        ("192.168.1.7", "localhost:7860", "127.0.0.1", True),
    ],
)
def test_what_the_user_asked_to_serve_is_served(
    asked: str, header: str, server: str, served_too: bool
) -> None:
    assert Guard(print, asked).serves(header, server) == served_too
