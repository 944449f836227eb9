"""Certificate files of a node: what is invalid, when they are read again, and when their expiry is warned about."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from api.shared.tls import (
    EXPIRY_WARNING_INTERVAL_S,
    EXPIRY_WARNING_S,
    NO_CERTIFICATE,
    NodeTls,
    TlsFiles,
    TlsFilesError,
    client_certificate,
)
from tests.support.certificates import Authority
from tests.support.tokens_file import Clock


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_without_files_listeners_are_plain_and_nodes_are_verified() -> None:
    tls = NodeTls(TlsFiles())

    assert (tls.server, tls.expires_at_s, tls.is_expiring) == (None, None, False)
    assert (tls.client.verify_mode, tls.client.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_clients_are_asked_for_certificates_as_the_files_say(authority: Authority) -> None:
    files = TlsFiles(certificate=authority.issue("node"))
    asking = replace(files, client_ca=authority.path)
    modes = [
        context.verify_mode
        for each in (files, asking, replace(asking, is_client_certificate_required=True))
        if (context := NodeTls(each).server)
    ]

    assert modes == [ssl.CERT_NONE, ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED]


def test_oldest_version_is_tls_1_2(authority: Authority) -> None:
    tls = NodeTls(TlsFiles(certificate=authority.issue("node")))

    assert tls.server is not None
    assert tls.server.minimum_version == tls.client.minimum_version == ssl.TLSVersion.TLSv1_2


def test_invalid_files_are_named(authority: Authority, tmp_path: Path) -> None:
    node, other, absent = authority.issue("node"), authority.issue("other"), tmp_path / "absent.pem"
    encrypted = tmp_path / "encrypted.pem"
    key = serialization.load_pem_private_key(other.read_bytes(), None)
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for files, said in (
        (TlsFiles(certificate=absent), f"{absent}: No such file"),
        (TlsFiles(certificate=node, key=other), f"{node} or {other}: KEY_VALUES_MISMATCH"),
        (TlsFiles(certificate=node, key=encrypted), f"{node} or {encrypted}: the key is encrypted"),
        (TlsFiles(certificate=node, client_ca=absent), f"{absent}: No such file"),
        (TlsFiles(ca=absent), f"{absent}: No such file"),
    ):
        with pytest.raises(TlsFilesError) as refusal:
            NodeTls(files)
        assert str(refusal.value).startswith(said)


def test_pair_is_reloaded_when_both_files_have_changed(authority: Authority, tmp_path: Path) -> None:
    first = authority.issue("node")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(first.read_bytes())
    key.write_bytes(first.read_bytes())
    tls = NodeTls(TlsFiles(certificate=certificate, key=key))
    before = tls.server
    second = authority.issue("node", days=200)

    with capture_logs() as logged:
        tls.refresh()
        assert (tls.server, logged, tls.warnings()) == (before, [], [])
        second.replace(certificate)
        tls.refresh()
        tls.refresh()
        assert tls.server is before
        authority.issue("node").replace(key)  # of another pair
        tls.refresh()
        assert tls.server is before
        (outdated,) = tls.warnings()
        assert outdated.startswith("the TLS files have changed and are invalid")
        key.unlink()
        key.write_bytes(certificate.read_bytes())
        tls.refresh()

    assert (tls.server is not before, tls.warnings()) == (True, [])
    events = [each["event"] for each in logged]
    assert events == ["tls_reload_failed", "tls_reload_failed", "tls_reloaded"]


def test_a_certificate_that_has_expired_does_not_replace_another_one(authority: Authority) -> None:
    certificate = authority.issue("node")
    tls = NodeTls(TlsFiles(certificate=certificate))
    before, expires_at_s = tls.server, tls.expires_at_s
    authority.issue("node", days=-1)
    with capture_logs() as logged:
        tls.refresh()

    assert [(each["event"], each["reason"]) for each in logged] == [
        ("tls_reload_failed", f"{certificate}: the certificate has expired")
    ]
    assert (tls.server, tls.expires_at_s) == (before, expires_at_s)
    authority.issue("node")
    tls.refresh()
    assert tls.server is not before


def test_expiry_is_warned_about_once_a_day(authority: Authority) -> None:
    clock = Clock()
    path = authority.issue("node", days=90)
    tls = NodeTls(TlsFiles(certificate=path), clock)
    assert tls.expires_at_s == x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()

    with capture_logs() as logged:
        for clock.now_s in (
            tls.expires_at_s - EXPIRY_WARNING_S - 1,
            tls.expires_at_s - EXPIRY_WARNING_S + 1,
            tls.expires_at_s - EXPIRY_WARNING_S + 2,
            tls.expires_at_s - EXPIRY_WARNING_S + 1 + EXPIRY_WARNING_INTERVAL_S,
            tls.expires_at_s + 1,
        ):
            tls.refresh()

    assert [each["event"] for each in logged] == ["tls_certificate_expiring"] * 3


def test_names_of_a_certificate_are_its_cn_and_alternative_names() -> None:
    certificate = {
        "subject": ((("organizationName", "Example"),), (("commonName", "billing"),)),
        "subjectAltName": (("DNS", "CN=ops"), ("URI", "spiffe://example.org/billing"), ("email", "b@example.org")),
    }

    assert client_certificate(certificate | {"notAfter": "Jan  2 00:00:00 1970 GMT"}) == (
        ("CN=billing", "DNS:CN=ops", "URI:spiffe://example.org/billing", "email:b@example.org"),
        86_400,
    )
    assert client_certificate(None) == client_certificate({}) == NO_CERTIFICATE
