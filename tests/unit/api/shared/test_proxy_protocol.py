"""Headers of the PROXY protocol: the client is read, bytes that follow are left, and all else is refused."""

import asyncio
import ipaddress
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.shared.proxy_protocol import LINE_MAX_BYTES, REST_MAX_BYTES, SIGNATURE, ProxyHeaderError, read_client_host

V4, V6 = st.ip_addresses(v=4), st.ip_addresses(v=6)
PORT = struct.pack(">HH", 50_000, 9_092)


def version_1(source: object, destination: object) -> bytes:
    family = "TCP4" if isinstance(source, ipaddress.IPv4Address) else "TCP6"
    return f"PROXY {family} {source} {destination} 50000 9092\r\n".encode()


def version_2(command: int, family: int, rest: bytes) -> bytes:
    return SIGNATURE + struct.pack(">BBH", 0x20 | command, family << 4 | 1, len(rest)) + rest


def read(data: bytes, chunk: int = 5) -> tuple[str | None, bytes]:
    """Return the client's address, and what was not read; bytes arrive in chunks."""
    left = bytearray(data)

    async def receive(size: int) -> bytes:
        taken = bytes(left[: min(size, chunk)])
        del left[: len(taken)]
        return taken

    return asyncio.run(read_client_host(receive)), bytes(left)


@given(pair=st.one_of(st.tuples(V4, V4), st.tuples(V6, V6)), after=st.binary(max_size=20), chunk=st.integers(1, 200))
def test_client_is_named_in_both_versions(
    pair: tuple[ipaddress.IPv4Address, ipaddress.IPv4Address] | tuple[ipaddress.IPv6Address, ipaddress.IPv6Address],
    after: bytes,
    chunk: int,
) -> None:
    source, destination = pair
    packed = source.packed + destination.packed + PORT + b"\x04\x00\x02ab"  # values follow the addresses
    for header in (version_1(source, destination), version_2(1, 1 if source.version == 4 else 2, packed)):
        assert read(header + after, chunk) == (str(source), after)


@pytest.mark.parametrize(
    "header",
    [b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN ::1 ::1 1 2\r\n", version_2(0, 1, b""), version_2(1, 3, bytes(216))],
    ids=["unknown", "unknown with addresses", "local", "unix"],
)
def test_header_may_name_no_client(header: bytes) -> None:
    assert read(header + b"x") == (None, b"x")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01",
        b"PROXY TCP4 192.0.2.300 192.0.2.1 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP4 192.0.2.3\r\n",
        b"PROXY TCP4 \xff \xff 1 2\r\n",
        b"PROXY " + b"x" * LINE_MAX_BYTES,
        SIGNATURE + b"\x11\x11\x00\x00",
        version_2(2, 1, bytes(12)),
        version_2(1, 1, bytes(11)),
        SIGNATURE + struct.pack(">BBH", 0x21, 0x11, REST_MAX_BYTES + 1),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProxyHeaderError):
        read(data)


@given(st.one_of(st.binary(), st.binary().map(b"PROXY ".__add__), st.binary().map(SIGNATURE.__add__)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(ProxyHeaderError, ConnectionResetError):
        read(data)
