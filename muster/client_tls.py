"""TLS of commands and of the local platform: the authorities and the client certificate that the environment names."""

# ruff: noqa: PLC0415 - the help of a command loads this module, and asks no node

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from muster.errors import USAGE_EXIT_CODE, UserError

if TYPE_CHECKING:
    import ssl


def client_ssl_context() -> ssl.SSLContext | None:
    """Return the context for nodes with https:// URLs; None: the environment names no files, and the defaults apply.

    Raises:
        UserError: a file cannot be read or is invalid.
    """
    names = ("MUSTER_TLS_CA_FILE", "MUSTER_CLIENT_CERTIFICATE_FILE", "MUSTER_CLIENT_KEY_FILE")
    ca, certificate, key = (os.environ.get(name, "").strip() or None for name in names)
    if ca is None and certificate is None:
        return None
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as failure:
        reason = failure.strerror or failure
        raise UserError(f"A file of {', '.join(names)} is invalid: {reason}.", USAGE_EXIT_CODE) from None
    return context
