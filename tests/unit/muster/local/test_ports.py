"""Port checks before a start name the process that uses a port."""

import os
import socket
from pathlib import Path

import pytest

from muster.errors import UserError
from muster.local import ports
from muster.local.ports import is_free_port, require_distinct_ports, require_free_port


def test_free_port_is_reported_as_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    require_free_port("127.0.0.1", port, "--port")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_process_that_uses_the_port_is_named(address: str) -> None:
    with socket.create_server((address, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UserError) as refused:
            require_free_port("127.0.0.1", port, "--port")
    assert f"(pid {os.getpid()})" in refused.value.sentence
    assert refused.value.sentence.endswith("or choose another port with --port.")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_port_of_two_servers_is_refused_with_both_options(address: str) -> None:
    with pytest.raises(UserError) as refused:
        require_distinct_ports([(address, 8_081, "--port"), ("127.0.0.1", 8_081, "--airflow-port")])
    expected = "Port 8081 is that of --port and of --airflow-port; choose another port with one of them."
    assert refused.value.sentence == expected


def test_one_port_of_two_addresses_is_no_conflict() -> None:
    require_distinct_ports([("127.0.0.1", 8_080, "--port"), ("127.0.0.2", 8_080, "MUSTER_KAFKA_PORT")])


@pytest.mark.parametrize("host", ["192.0.2.1", "::1::"])
def test_host_that_is_not_this_machine_is_named_instead_of_the_port(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(UserError) as refused:
        require_free_port(host, server.getsockname()[1], "--port")
    assert refused.value.sentence.startswith(f"No server can listen on {host} (")
    assert refused.value.sentence.endswith("it has to be an address of this machine.")


def test_old_connections_do_not_hold_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    accepted.close()  # The server's side closes first, so its half of the connection lingers.
    client.close()
    assert is_free_port("127.0.0.1", port)


def test_kernel_without_ipv6_has_no_table_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "net" / "tcp"
    table.parent.mkdir()
    table.write_text(Path("/proc/net/tcp").read_text(encoding="ascii"), encoding="ascii")
    monkeypatch.setattr(ports, "PROC", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} on 127.0.0.1 is taken or not allowed"):
            require_free_port("127.0.0.1", port, "--port")
