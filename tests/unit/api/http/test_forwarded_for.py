"""The client's address behind trusted proxies, and that others cannot set it."""

import pytest

from api.http.forwarded_for import client_of
from api.shared.trusted_proxies import NO_PROXIES, TrustedProxies

PROXIES = TrustedProxies(["10.1.0.0/16", "2001:db8::/32", "192.0.2.7"])


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("10.1.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.1.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        ("10.1.0.1", ["203.0.113.9, 10.1.0.2"], "203.0.113.9"),
        ("10.1.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        ("10.1.0.1", ["203.0.113.9,192.0.2.7 , 10.1.4.4"], "203.0.113.9"),
        ("10.1.0.1", ["10.1.0.9"], "10.1.0.9"),
        ("10.1.0.1", [], "10.1.0.1"),
        ("10.1.0.1", [""], "10.1.0.1"),
        ("10.1.0.1", ["203.0.113.9, unknown"], "10.1.0.1"),
        ("10.1.0.1", ["203.0.113.9, unknown, 10.1.0.2"], "10.1.0.2"),
        ("10.1.0.1", ["203.0.113.9\xff"], "10.1.0.1"),
        ("::ffff:10.1.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("2001:db8::1", ["2001:0DB9::0001"], "2001:db9::1"),
        ("10.2.0.1", ["203.0.113.9"], "10.2.0.1"),
        ("", ["203.0.113.9"], ""),
    ],
)
def test_only_trusted_proxies_name_the_client(peer: str, headers: list[str], client: str) -> None:
    given = [(b"x-forwarded-for", value.encode("latin-1")) for value in headers]

    assert client_of(PROXIES, peer, [(b"host", b"a"), *given, (b"forwarded", b"for=198.51.100.99")]) == client
    assert client_of(NO_PROXIES, peer, given) == peer
