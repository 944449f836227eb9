"""The files of TLS that the environment names for commands."""

import pytest

from muster.client_tls import client_ssl_context


def test_blank_variable_counts_as_absent_for_commands_as_for_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUSTER_TLS_CA_FILE", "MUSTER_CLIENT_CERTIFICATE_FILE", "MUSTER_CLIENT_KEY_FILE"):
        monkeypatch.setenv(name, " \n")
    assert client_ssl_context() is None
