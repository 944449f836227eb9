"""Trusted proxies: the client's address in X-Forwarded-For counts in requests of the proxies of MUSTER_TRUSTED_PROXIES.

Each proxy appends the address of its own client, so the list is read from its end, past further trusted proxies: what
stands before the first other address may come from the client itself. The header Forwarded (RFC 7239) is not read: a
proxy that sets only the one header passes the other on as the client sent it.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

FORWARDED_FOR: Final = b"x-forwarded-for"
PROXY_CACHE_MAX: Final = 1_024


class TrustedProxies:
    """The proxies that one node trusts."""

    def __init__(self, networks: Sequence[str] = ()) -> None:
        """Read the networks, such as `10.1.0.0/16` or `192.0.2.7`.

        Raises:
            ValueError: one is no network.
        """
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)
        self._is_trusted = lru_cache(PROXY_CACHE_MAX)(self._is_in_networks)

    def client_of(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the address of the client of a request.

        Args:
            peer: the address at the other end of the connection; empty if it has none.
            headers: the request's, by names in lower case.
        """
        if not self._networks or not self._is_trusted(peer):
            return peer
        named = b",".join([value for name, value in headers if name == FORWARDED_FOR])
        client = peer
        for each in reversed(named.decode("latin-1").split(",")):
            address = _address(each.strip())
            if address is None:
                break
            client = str(address)
            if not self._is_trusted(client):
                break
        return client

    def _is_in_networks(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)


NO_PROXIES: Final = TrustedProxies()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address; one of IPv4 in IPv6 as that of IPv4."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
