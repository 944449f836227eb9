"""TLS of a node by its settings: the files that it reads, and the connections that are not encrypted."""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import structlog
from sqlalchemy import make_url

from api.shared.tls import NodeTls, TlsFiles, TlsFilesError
from muster.errors import USAGE_EXIT_CODE, UserError
from muster.settings import Settings, is_loopback

log = structlog.get_logger("muster.node")

ENCRYPTED_MODES: Final = frozenset({"require", "verify-ca", "verify-full"})
"""Values of libpq's `sslmode` with which nothing is sent without TLS."""


class Unencrypted(NamedTuple):
    """A connection that may leave the machine without TLS."""

    setting: str
    reason: str


def read_tls(settings: Settings) -> NodeTls:
    """Return the certificate of the node, and how it checks others'.

    Raises:
        UserError: a file cannot be read or is invalid.
    """
    files = TlsFiles(
        certificate=settings.tls_certificate_file,
        key=settings.tls_key_file,
        client_ca=settings.tls_client_ca_file,
        is_client_certificate_required=settings.tls_client_auth == "required",
        ca=settings.tls_ca_file,
    )
    try:
        return NodeTls(files)
    except TlsFilesError as refusal:
        raise UserError(f"A file of MUSTER_TLS_… is invalid: {refusal}.", USAGE_EXIT_CODE) from None


def warn_of_unencrypted(settings: Settings) -> None:
    """Log each connection that is not encrypted."""
    for found in unencrypted(settings):
        log.warning("connection_not_encrypted", setting=found.setting, reason=found.reason)


def unencrypted(settings: Settings) -> Iterator[Unencrypted]:
    """Yield the settings whose connections may leave the machine without TLS."""
    if settings.database_url is not None:
        hosts, mode = database_peers(settings.database_url.get_secret_value())
        remote = [host for host in hosts if not (host.startswith(("/", "@")) or is_loopback(host))]
        if remote and mode not in ENCRYPTED_MODES:
            yield Unencrypted("MUSTER_DATABASE_URL", f"sslmode is {mode}, and {', '.join(remote)} is another machine")
    if settings.tls_certificate_file is None:
        kafka = [("MUSTER_KAFKA_HOST", settings.kafka_host)] if settings.kafka_port is not None else []
        for name, host in (("MUSTER_HTTP_HOST", settings.http_host), *kafka):
            if not is_loopback(host):
                yield Unencrypted(name, f"clients of {host} send tokens without TLS, unless a proxy is before it")


def database_peers(url: str) -> tuple[list[str], str]:
    """Return the hosts of a database URL, and libpq's `sslmode`; a path is a socket, as is no host."""
    parsed = make_url(url)
    _, options = parsed.get_dialect()().create_connect_args(parsed)
    hosts = options.get("hostaddr") or options.get("host") or os.environ.get("PGHOST") or ""
    mode = options.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"
    return [host for host in str(hosts).split(",") if host], str(mode)
