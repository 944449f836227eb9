"""Host and origin checks: a web page can neither reach a node by DNS rebinding nor send it a cross-site change.

* The Host of every request is a loopback name or address, the host of the advertised URL, or named in
  MUSTER_ALLOWED_HOSTS. A node that listens beyond loopback also answers to any IP address: DNS rebinding needs a name.
* A request that may change state and that a browser sent comes from the node's own origin, or from a host in
  MUSTER_ALLOWED_HOSTS. Only browsers send Origin and Sec-Fetch-Site; a request with neither header passes.

Source: RFC 9110, 7.2; RFC 9112, 3.2; RFC 6454; Fetch Metadata Request Headers.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence, Sized
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

from litestar.types import HTTPScope

from api.http.limits import HOST_CACHE_MAX
from api.http.problems import CrossOriginRequest, MisdirectedRequest
from coordinator_core.protocol.errors import InvalidRequest

HOST: Final = b"host"
ORIGIN: Final = b"origin"
FETCH_SITE: Final = b"sec-fetch-site"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing. Source: RFC 9110, 9.2.1."""
TRUSTED_FETCH_SITES: Final = frozenset({b"same-origin", b"none"})
"""Values of Sec-Fetch-Site for requests of the node's own pages and of the user."""
DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
LOOPBACK_NAME: Final = "localhost"
WILDCARD: Final = "*."

AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+?)\.?(?::(?P<port>\d{0,5}))?")


class Authority(NamedTuple):
    """A host with its port; the host is in lower case and has no dot at its end."""

    host: str
    port: int | None


class AllowedHosts:
    """The hosts that one node answers to, and the origins that may change its state."""

    def __init__(
        self, listen_host: str = "127.0.0.1", advertised_url: str = "http://127.0.0.1", names: Sequence[str] = ()
    ) -> None:
        """Read the origins from the URLs.

        Args:
            listen_host: the address that the node listens on.
            advertised_url: how agents and other nodes reach the node.
            names: the hosts of MUSTER_ALLOWED_HOSTS, in lower case; `*.` and a name stands for all names below it.
        """
        self._is_on_loopback = _is_loopback(listen_host)
        self._advertised_host = (urlsplit(advertised_url).hostname or "").rstrip(".")
        self._advertised_origin = _origin(advertised_url)
        self._names = frozenset(name.strip("[]") for name in names if not name.startswith(WILDCARD))
        self._suffixes = tuple(name.removeprefix("*") for name in names if name.startswith(WILDCARD))
        self._known_hosts: set[bytes] = set()
        """Host headers that passed, so that the next request with the same one costs one look-up."""

    def check(self, scope: HTTPScope, headers: Mapping[bytes, bytes]) -> None:
        """Check the host of a request, and the origin if the request may change state.

        Args:
            scope: the request's.
            headers: the request's, by their names in lower case; the first of each name.

        Raises:
            InvalidRequest: the request has no Host, or more than one.
            MisdirectedRequest: the node does not answer to this Host.
            CrossOriginRequest: a page of another origin sent the request.
        """
        host = headers.get(HOST)
        if host not in self._known_hosts or len(headers) != len(cast("Sized", scope["headers"])):
            self._check_host(scope, host)
        if scope["method"] not in SAFE_METHODS and (ORIGIN in headers or FETCH_SITE in headers):
            self._check_origin(host or b"", headers.get(ORIGIN), headers.get(FETCH_SITE))

    def _check_host(self, scope: HTTPScope, host: bytes | None) -> None:
        if host is None:
            if scope["http_version"] == "1.0":
                return  # no browser: they all send HTTP/1.1 or newer, with a Host
            raise InvalidRequest("the request has no Host header")
        if sum(name == HOST for name, _ in scope["headers"]) > 1:
            raise InvalidRequest("the request has more than one Host header")
        authority = _authority(host)
        if authority is None or not self._is_allowed(authority.host):
            shown = host.decode("latin-1")
            raise MisdirectedRequest(f"this node does not answer to the host {shown}: name it in MUSTER_ALLOWED_HOSTS")
        if len(self._known_hosts) < HOST_CACHE_MAX:
            self._known_hosts.add(host)

    def _is_allowed(self, host: str) -> bool:
        if host in {LOOPBACK_NAME, self._advertised_host} or self._is_named(host):
            return True
        address = _address(host)
        return address is not None and (address.is_loopback or not self._is_on_loopback)

    def _is_named(self, host: str) -> bool:
        """Return whether MUSTER_ALLOWED_HOSTS contains a host."""
        return host in self._names or host.endswith(self._suffixes)

    def _check_origin(self, host: bytes, origin: bytes | None, site: bytes | None) -> None:
        given = None if origin is None else _origin(origin.decode("latin-1"))
        if given is not None and (given == self._advertised_origin or self._is_named(given[1].host)):
            return
        is_own_origin = origin is None or (given is not None and given[1] == _authority(host, DEFAULT_PORTS[given[0]]))
        if not is_own_origin or (site is not None and site not in TRUSTED_FETCH_SITES):
            shown = "another site" if origin is None else f"the origin {origin.decode('latin-1')}"
            raise CrossOriginRequest(
                f"a page of {shown} may change nothing here: name its host in MUSTER_ALLOWED_HOSTS if it is yours"
            )


def _authority(header: bytes, default_port: int | None = None) -> Authority | None:
    """Return the parts of a Host header, or None if it is malformed."""
    found = AUTHORITY.fullmatch(header.decode("latin-1").strip().lower())
    if found is None:
        return None
    return Authority(found["host"].strip("[]"), int(found["port"]) if found["port"] else default_port)


def _origin(url: str) -> tuple[str, Authority] | None:
    """Return the scheme, host and port of an origin, or None for `null` and anything else that is no HTTP origin."""
    scheme, _, rest = url.strip().lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    authority = None if port is None else _authority(rest.partition("/")[0].encode("latin-1", "replace"), port)
    return None if authority is None else (scheme, authority)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == LOOPBACK_NAME if address is None else address.is_loopback
