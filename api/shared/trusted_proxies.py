"""Trusted proxies: the peers of MUSTER_TRUSTED_PROXIES, which may name the client of a request or a connection."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

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

    def trust(self, host: str) -> bool:
        """Return whether the peer at an address is one of them; an empty address is none."""
        return bool(self._networks) and self._is_trusted(host)

    def _is_in_networks(self, host: str) -> bool:
        address = ip_address(host)
        return address is not None and any(address in network for network in self._networks)


NO_PROXIES: Final = TrustedProxies()


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, one of IPv4 in IPv6 as that of IPv4; None: the text is no address."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found
