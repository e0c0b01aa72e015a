"""No test reaches beyond this machine: every Python process of the tests loads this file and is held to it.

What was tried is written to the file that GEQ_NETWORK_LOG names, because a library may swallow the error; the
test during which it happened fails.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any

connect, connect_ex, sendto = socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto
getaddrinfo = socket.getaddrinfo
NAMES = {None, "", "localhost", socket.gethostname()}


def refuse(what: str) -> None:
    log = os.environ.get("GEQ_NETWORK_LOG")
    if log:
        with open(log, "a") as file:
            file.write(f"{what}\n")
    raise ConnectionRefusedError(f"tests reach this machine only, not {what}")


def own(host: str) -> bool:
    """Loopback, or an address of this machine: those can be bound."""
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return host in NAMES
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def check(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6) and not own(str(address[0])):
        refuse(str(address[0]))


def checked_connect(sock: socket.socket, address: Any) -> None:
    if sock.type == socket.SOCK_STREAM:  # a datagram socket sends nothing when it is connected
        check(sock, address)
    connect(sock, address)


def checked_connect_ex(sock: socket.socket, address: Any) -> int:
    if sock.type == socket.SOCK_STREAM:
        check(sock, address)
    return connect_ex(sock, address)


def checked_sendto(sock: socket.socket, data: Any, *rest: Any) -> int:
    check(sock, rest[-1])
    return sendto(sock, data, *rest)


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    return True


def checked_getaddrinfo(host: Any, *rest: Any, **more: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if name not in NAMES and not is_address(str(name)):  # only a name is asked for in the network
        refuse(str(name))
    return getaddrinfo(host, *rest, **more)


socket.socket.connect = checked_connect  # type: ignore[method-assign,assignment]
socket.socket.connect_ex = checked_connect_ex  # type: ignore[method-assign,assignment]
socket.socket.sendto = checked_sendto  # type: ignore[method-assign,assignment]
socket.getaddrinfo = checked_getaddrinfo
