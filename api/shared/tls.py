"""TLS of a node: contexts made of the files of certificates, keys and authorities, and made again when those change.

A new file that is invalid leaves the previous contexts effective, and is logged as `tls_reload_failed`: a certificate
that has expired, for example, or a key that does not belong to its certificate, until both files have changed.
Connections keep the context of their handshake.
"""

import asyncio
import contextlib
import ssl
import time
from _ssl import _test_decode_cert  # type: ignore[attr-defined]  # the standard library has no public one
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from api.shared.file_version import FileVersion, file_version

log = structlog.get_logger("muster.api")

RELOAD_CHECK_INTERVAL_S: Final = 1.0
"""The time between two checks of the files for changes."""
EXPIRY_WARNING_S: Final = 14 * 86_400.0
"""How long before its expiry a certificate is warned about."""
EXPIRY_WARNING_INTERVAL_S: Final = 86_400.0


class TlsFilesError(Exception):
    """A file cannot be read or is invalid; the text names it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a node, as PEM."""

    certificate: Path | None = None
    """The certificate of the node, and those between it and its authority; None: listeners do not use TLS."""
    key: Path | None = None
    """The key of that certificate; None: it is in the same file."""
    client_ca: Path | None = None
    """The authorities that certificates of clients are checked against; None: clients are asked for none."""
    is_client_certificate_required: bool = False
    """Whether a client without a certificate is refused, another node included."""
    ca: Path | None = None
    """The authorities that certificates of other nodes are checked against; None: those of the system."""


class NodeTls:
    """The contexts of one node."""

    def __init__(self, files: TlsFiles, wall_s: Callable[[], float] = time.time) -> None:
        """Read the files.

        Args:
            files: which they are.
            wall_s: the wall clock, in seconds since the epoch; certificates expire by it.

        Raises:
            TlsFilesError: one cannot be read or is invalid.
        """
        self._files = files
        self._wall_s = wall_s
        self._next_warning_at_s = 0.0
        self._versions = self._read_versions()
        self._load(allow_expired=True)
        self._is_outdated = False
        """Whether the files have changed and could not be used."""

    @property
    def is_expiring(self) -> bool:
        """Return whether the certificate has expired, or will within EXPIRY_WARNING_S."""
        return self.expires_at_s is not None and self.expires_at_s - self._wall_s() < EXPIRY_WARNING_S

    def warnings(self) -> list[str]:
        """Return what an operator should know of the files, as sentences without their names."""
        expiring = "the TLS certificate of the node expires within 14 days, or has expired"
        outdated = "the TLS files have changed and are invalid; the previous ones remain effective (tls_reload_failed)"
        return [expiring] * self.is_expiring + [outdated] * self._is_outdated

    async def keep_fresh(self) -> None:
        """Refresh the contexts from time to time, until cancelled."""
        while True:
            self.refresh()
            await asyncio.sleep(RELOAD_CHECK_INTERVAL_S)

    def refresh(self) -> None:
        """Read the files again if one has changed; log a warning once a day while the certificate expires soon."""
        versions = self._read_versions()
        if versions != self._versions:
            self._versions = versions
            try:
                self._load(allow_expired=False)
            except TlsFilesError as error:
                self._is_outdated = True
                log.error("tls_reload_failed", reason=str(error))
            else:
                self._is_outdated = False
                self._next_warning_at_s = 0.0
                log.info("tls_reloaded", expires_at_s=self.expires_at_s)
        if self.is_expiring and self._wall_s() >= self._next_warning_at_s:
            self._next_warning_at_s = self._wall_s() + EXPIRY_WARNING_INTERVAL_S
            log.warning("tls_certificate_expiring", certificate=str(self._files.certificate), at_s=self.expires_at_s)

    def _load(self, *, allow_expired: bool) -> None:
        server, expires_at_s = (None, None) if self._files.certificate is None else _server_context(self._files)
        if not allow_expired and expires_at_s is not None and expires_at_s <= self._wall_s():
            raise TlsFilesError(f"{self._files.certificate}: the certificate has expired")
        self.client = _client_context(self._files)
        """The context of requests to other nodes."""
        self.server = server
        """The context of the listeners; None: they do not use TLS."""
        self.expires_at_s = expires_at_s
        """When the certificate of the node expires, in seconds since the epoch; None: it has none."""

    def _read_versions(self) -> list[FileVersion | None]:
        files = self._files
        return [file_version(path) for path in (files.certificate, files.key, files.client_ca, files.ca) if path]


class ClientCertificate(NamedTuple):
    """What a connection's client presented in its handshake, or nothing."""

    names: tuple[str, ...]
    """As a tokens file has them, such as `CN=billing` or `DNS:billing.svc`."""
    expires_at_s: float
    """In seconds since the epoch; connections may outlive it."""


NO_CERTIFICATE: Final = ClientCertificate((), inf)


def client_certificate(certificate: Mapping[str, Any] | None) -> ClientCertificate:
    """Return the certificate of a client.

    Args:
        certificate: verified, as `SSLSocket.getpeercert` returns it; None or empty: the client has sent none.
    """
    if not certificate:
        return NO_CERTIFICATE
    subject = [f"CN={value}" for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    names = (*subject, *(f"{kind}:{value}" for kind, value in certificate.get("subjectAltName", ())))
    return ClientCertificate(names, ssl.cert_time_to_seconds(certificate["notAfter"]))


def certificate_expiry_s(path: Path) -> float:
    """Return when the first certificate of a file expires, in seconds since the epoch.

    Raises:
        TlsFilesError: it cannot be read.
    """
    with _errors_of(path):
        return float(ssl.cert_time_to_seconds(str(_test_decode_cert(str(path))["notAfter"])))


def _server_context(files: TlsFiles) -> tuple[ssl.SSLContext, float]:
    """Return the context of the listeners, and when its certificate expires."""
    assert files.certificate is not None
    with _errors_of(files.client_ca):
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.client_ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_pair(context, files)
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED if files.is_client_certificate_required else ssl.CERT_OPTIONAL
    return context, certificate_expiry_s(files.certificate)


def _client_context(files: TlsFiles) -> ssl.SSLContext:
    """Return the context of requests to other nodes, which get the node's certificate only if they require one."""
    with _errors_of(files.ca):
        context = ssl.create_default_context(cafile=files.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.is_client_certificate_required and files.certificate is not None:
        _load_pair(context, files)
    return context


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.certificate is not None
    with _errors_of(files.certificate, files.key):
        context.load_cert_chain(files.certificate, files.key, password=_refuse_encrypted_key)


def _refuse_encrypted_key() -> str:
    """Raise an error in place of OpenSSL's question at the terminal."""
    raise ValueError("the key is encrypted")


@contextlib.contextmanager
def _errors_of(*paths: Path | None) -> Iterator[None]:
    """Raise errors of the block as TlsFilesError with the names of the files."""
    try:
        yield
    except (OSError, ValueError) as failure:
        reason = getattr(failure, "reason", None) or getattr(failure, "strerror", None) or failure
        raise TlsFilesError(f"{' or '.join(str(path) for path in paths if path)}: {reason}") from None
