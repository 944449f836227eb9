"""The PROXY protocol, versions 1 and 2: a proxy names its client in a header, before the first byte of the connection.

Source: HAProxy's proxy-protocol.txt.
"""

import ipaddress
import struct
from collections.abc import Awaitable, Callable
from typing import Final

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
"""How a header of version 2 begins; one of version 1 is longer too."""
LINE_MAX_BYTES: Final = 107
"""The maximum size of a header of version 1, with its end of line."""
REST_MAX_BYTES: Final = 4_096
"""The maximum size of a header of version 2 after its first 16 bytes: addresses, and values that are not read."""
VERSION_2: Final = 2
LOCAL, PROXY = 0, 1
"""The commands of version 2: a connection of the proxy itself, such as a health check, or one that it passes on."""
_FIXED: Final = struct.Struct(">BBH")
_INET, _INET6 = 1, 2
_ADDRESSES_BYTES: Final = {_INET: 12, _INET6: 36}

Receive = Callable[[int], Awaitable[bytes]]
"""Returns at most this many of the bytes that arrive next; none when the connection has ended."""


class ProxyHeaderError(OSError):
    """A connection without the header of a trusted proxy; it is closed."""


async def read_client_host(receive: Receive) -> str | None:
    """Read a header and nothing after it, and return the address of the client; None: the header names none.

    Raises:
        ProxyHeaderError: there is no valid header.
        ConnectionResetError: the connection has ended before.
    """
    start = await _exactly(receive, len(SIGNATURE))
    if start == SIGNATURE:
        return await _read_version_2(receive)
    if not start.startswith(b"PROXY "):
        raise ProxyHeaderError("the connection begins without a header of the PROXY protocol")
    line = start
    while not line.endswith(b"\r\n"):
        if len(line) == LINE_MAX_BYTES:
            raise ProxyHeaderError(f"the header has more than {LINE_MAX_BYTES} bytes")
        line += await _exactly(receive, 1)
    return _host_of_line(line)


def _host_of_line(line: bytes) -> str | None:
    try:
        match line.decode("ascii").removesuffix("\r\n").split(" "):
            case ["PROXY", "UNKNOWN", *_]:
                return None
            case ["PROXY", "TCP4", source, _, _, _]:
                return str(ipaddress.IPv4Address(source))
            case ["PROXY", "TCP6", source, _, _, _]:
                return str(ipaddress.IPv6Address(source))
            case _:
                raise ValueError  # as for an address that is none
    except ValueError:
        raise ProxyHeaderError("the header is malformed") from None


async def _read_version_2(receive: Receive) -> str | None:
    version_and_command, family_and_transport, size = _FIXED.unpack(await _exactly(receive, _FIXED.size))
    version, command = divmod(version_and_command, 16)
    if version != VERSION_2 or command not in {LOCAL, PROXY} or size > REST_MAX_BYTES:
        raise ProxyHeaderError("the header is malformed or too large")
    rest = await _exactly(receive, size)
    family = family_and_transport >> 4
    if command == LOCAL or family not in _ADDRESSES_BYTES:
        return None
    if size < _ADDRESSES_BYTES[family]:
        raise ProxyHeaderError("the header ends within an address")
    return str(ipaddress.IPv4Address(rest[:4]) if family == _INET else ipaddress.IPv6Address(rest[:16]))


async def _exactly(receive: Receive, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = await receive(size - len(data))
        if not more:
            raise ConnectionResetError("the connection ended within the header of the PROXY protocol")
        data += more
    return data
