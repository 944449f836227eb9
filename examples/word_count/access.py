"""The token and the trusted authorities, of MUSTER_TOKEN and MUSTER_TLS_CA_FILE, as for the commands."""

from __future__ import annotations

import os
import ssl
from typing import NamedTuple, Self

from examples.word_count.errors import UserError


class Access(NamedTuple):
    """How a consumer authenticates, and whom it trusts."""

    token: str | None
    ssl_context: ssl.SSLContext

    @classmethod
    def of_environment(cls) -> Self:
        """Read the variables; without them there is no token, and the authorities are the system's.

        Raises:
            UserError: the file of the authorities cannot be read.
        """
        file = os.environ.get("MUSTER_TLS_CA_FILE") or None
        try:
            context = ssl.create_default_context(cafile=file)
        except OSError as problem:
            raise UserError(f"MUSTER_TLS_CA_FILE: {file} cannot be read: {problem.strerror or problem}") from None
        return cls(os.environ.get("MUSTER_TOKEN") or None, context)
