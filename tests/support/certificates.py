"""Certificates for tests of TLS."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = x509.IPAddress(IPv4Address("127.0.0.1"))
Key = ec.EllipticCurvePrivateKey
USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
"""What x509.KeyUsage has to be given."""


class Authority:
    """A certificate authority, with its certificate in the file `path`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(self._key, name, self._key, name, is_authority=True)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(_pem(certificate))

    def issue(
        self, common_name: str, *, days: float = 90, names: Sequence[x509.GeneralName] = (LOOPBACK,), file: str = ""
    ) -> Path:
        """Write a certificate, with its key before it, to a file that is replaced at once, and return that.

        Args:
            common_name: its CN.
            days: how many days from now it expires; negative: it has expired.
            names: its subjectAltName; by default the address 127.0.0.1.
            file: the name of the file in the authority's folder; empty: the CN.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(key, common_name, self._key, self._name, days=days, names=names)
        path = self._folder / (file or f"{common_name}.pem")
        draft = path.with_suffix(".new")
        draft.write_bytes(_key_pem(key) + _pem(certificate))
        draft.replace(path)
        return path

    def trusted(self, certificate: Path | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts this authority, and may have a certificate."""
        context = ssl.create_default_context(cafile=self.path)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context


def write_certificate(path: Path) -> Path:
    """Write a self-signed certificate for 127.0.0.1, with its key, to a file, and return that."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = "a node of a test"
    path.write_bytes(_key_pem(key) + _pem(_certificate(key, name, key, name, is_authority=True, names=[LOOPBACK])))
    return path


def _certificate(
    key: Key,
    name: str,
    issuer_key: Key,
    issuer: str,
    *,
    days: float = 90,
    names: Sequence[x509.GeneralName] = (),
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        # Without these, and the key usage of an authority, Python 3.13 refuses a certificate.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if is_authority:
        usage = dict.fromkeys(USAGES, False) | {"digital_signature": True, "key_cert_sign": True}
        builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
