"""The client's address in X-Forwarded-For, which counts in requests of trusted proxies only.

Each proxy appends the address of its own client, so the list is read from its end, past further trusted proxies: what
stands before the first other address may come from the client itself. The header Forwarded (RFC 7239) is not read: a
proxy that sets only the one header passes the other on as the client sent it.
"""

import re
from collections.abc import Iterable
from typing import Final

from api.shared.trusted_proxies import TrustedProxies, ip_address

FORWARDED_FOR: Final = b"x-forwarded-for"

_WITH_PORT: Final = re.compile(r"\[(?P<v6>[^\]]*)\](:\d{1,5})?|(?P<v4>[\d.]+):\d{1,5}", re.ASCII)
"""An address as some proxies append it: an IPv6 address in brackets, and a port."""


def client_of(proxies: TrustedProxies, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the address of the client of a request.

    Args:
        proxies: those that the node trusts.
        peer: the address at the other end of the connection; empty if it has none.
        headers: the request's, by names in lower case.
    """
    if not proxies.trust(peer):
        return peer
    named = b",".join([value for name, value in headers if name == FORWARDED_FOR])
    client = peer
    for each in reversed(named.decode("latin-1").split(",")):
        address = ip_address(_without_port(each.strip()))
        if address is None:
            break
        client = str(address)
        if not proxies.trust(client):
            break
    return client


def _without_port(entry: str) -> str:
    found = _WITH_PORT.fullmatch(entry)
    return entry if found is None else found["v6"] or found["v4"] or ""
