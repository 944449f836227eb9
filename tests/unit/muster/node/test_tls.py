"""Which connections of a node are not encrypted."""

import pytest

from muster.node.tls import Unencrypted, database_peers, unencrypted
from muster.settings import Settings

URL = "postgresql+psycopg2://me:secret@"


@pytest.mark.parametrize(
    ("url", "hosts", "mode"),
    [
        ("db-1.example.org/muster", ["db-1.example.org"], "prefer"),
        ("db-1:6432/muster?sslmode=disable", ["db-1"], "disable"),
        ("/muster?host=/run/postgresql", ["/run/postgresql"], "prefer"),
        ("/muster", [], "prefer"),
        ("/muster?host=db-1:1&host=127.0.0.1:2&sslmode=require", ["db-1", "127.0.0.1"], "require"),
        ("[::1]/muster", ["::1"], "prefer"),
        ("db-1/muster?hostaddr=192.0.2.1", ["192.0.2.1"], "prefer"),
    ],
)
def test_hosts_and_mode_of_a_database_url(
    url: str, hosts: list[str], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    monkeypatch.delenv("PGSSLMODE", raising=False)

    assert database_peers(URL + url) == (hosts, mode)


def test_variables_of_libpq_count_where_the_url_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db-2")
    monkeypatch.setenv("PGSSLMODE", "verify-full")

    assert database_peers(URL + "/muster") == (["db-2"], "verify-full")


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"])
@pytest.mark.parametrize(("host", "is_remote"), [("db-1", True), ("127.0.0.1", False), ("localhost", False)])
def test_remote_database_without_tls_is_found(host: str, mode: str, *, is_remote: bool) -> None:
    found = [each.setting for each in unencrypted(Settings(database_url=f"{URL}{host}/muster?sslmode={mode}"))]  # type: ignore[arg-type]  # validated there

    is_open = is_remote and mode in {"disable", "allow", "prefer"}
    assert found == (["MUSTER_DATABASE_URL"] if is_open else [])


def test_password_of_the_database_is_not_shown() -> None:
    (found,) = unencrypted(Settings(database_url=f"{URL}db-1/muster"))  # type: ignore[arg-type]  # validated there

    assert found == Unencrypted("MUSTER_DATABASE_URL", "sslmode is prefer, and db-1 is another machine")


def test_listeners_beyond_loopback_without_tls_are_found() -> None:
    options: dict[str, object] = {
        "require_tokens": True,
        "http_host": "0.0.0.0",
        "kafka_host": "::",
        "kafka_port": 9_092,
    }
    url = {"advertised_url": "https://muster.example.org"}

    assert [each.setting for each in unencrypted(Settings(**options))] == ["MUSTER_HTTP_HOST", "MUSTER_KAFKA_HOST"]  # type: ignore[arg-type]
    assert list(unencrypted(Settings(**options, **url, tls_certificate_file="tls.pem"))) == []  # type: ignore[arg-type]
    assert list(unencrypted(Settings(require_tokens=True, kafka_host="::"))) == []
