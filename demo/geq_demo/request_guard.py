"""Refuse requests of other sites: a foreign page must not use the server of this machine.

A browser lets any site send requests to 127.0.0.1. The header Origin names the site that sends one. A site
can also give its own name the address 127.0.0.1 (DNS rebinding) and so be its own origin; then Host has that
name.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from geq.safe_parsing import short


@dataclass(frozen=True)
class Guard:
    """ASGI middleware that answers requests for the served host, and from its own pages, only.

    Loopback names and addresses are always served.

    Args:
        app: The application behind it.
        host: Address or name that the user asked to serve; 0.0.0.0 or :: is any address of this machine.
    """

    app: ASGIApp
    host: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            server = (scope.get("server") or ("", None))[0]
            refusal = self.refusal(Headers(scope=scope), server)
            if refusal:
                if scope["type"] == "http":
                    await PlainTextResponse(refusal, 403)(scope, receive, send)
                else:
                    await send({"type": "websocket.close", "code": 1008})
                return
        await self.app(scope, receive, send)

    def refusal(self, headers: Headers, server: str) -> str:
        """Return why a request is refused; empty where it is not.

        Args:
            headers: Those of the request.
            server: Address that the connection was made to.
        """
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self.serves(hosts[0], server):
            return (
                "This page must be opened under the address that geq demo printed: got the host "
                f"{shown(hosts)}; use that address, or start geq demo with --host and this name."
            )
        if origins and not (len(origins) == 1 and same_site(origins[0], hosts[0])):
            return f"This page answers its own requests only: got one of {shown(origins)}; open the page."
        return ""

    def serves(self, header: str, server: str) -> bool:
        """Return whether a Host header names what is served.

        >>> guard = Guard(print, "127.0.0.1")
        >>> guard.serves("localhost:7860", "127.0.0.1"), guard.serves("attacker.example:7860", "127.0.0.1")
        (True, False)
        """
        name, asked = name_in(header), self.host.lower().strip("[]")
        if name in ("localhost", asked):
            return bool(name)
        address, all_addresses = address_in(name), is_unspecified(asked)
        if address is None:
            here = socket.gethostname().lower()
            return all_addresses and name in (here, f"{here}.local")
        # An address cannot be rebound: a user who types one reaches the machine that has it.
        return address.is_loopback or all_addresses or address == address_in(server)


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def name_in(header: str) -> str:
    """Return the name or address in a Host header, without its port; empty if there is none.

    >>> name_in("LocalHost.:80"), name_in("[::1]:80"), name_in("a/b"), name_in("[")
    ('localhost', '::1', '', '')
    """
    try:
        parts = urlsplit(f"//{header}")
        plain = parts.netloc == header and "@" not in header and (parts.port is None or parts.port >= 0)
    except ValueError:
        return ""
    return (parts.hostname or "").removesuffix(".") if plain else ""


def address_in(name: str) -> Address | None:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_unspecified(host: str) -> bool:
    address = address_in(host)
    return address is not None and address.is_unspecified


def same_site(origin: str, host: str) -> bool:
    """Return whether an Origin header is that of the page that was asked for.

    >>> same_site("http://127.0.0.1:7860", "127.0.0.1:7860"), same_site("null", "127.0.0.1:7860")
    (True, False)
    """
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def shown(values: list[str]) -> str:
    return ", ".join(short(value) for value in values[:3]) or "none"
