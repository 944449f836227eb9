"""Commands against a node with TLS: authorities, client certificates, and what `muster doctor` finds."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.local.nodes import local_nodes
from tests.support.certificates import Authority
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.muster_command import QUICK, Muster
from tests.support.nodes import CLUSTER_SECRET, Node, running_node
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import poll_until

OPS = {"certificate": "CN=ops", "actor": "ops", "role": "operator"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(databases: Databases, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    tokens = TokensFile(tmp_path_factory.mktemp("tokens") / "tokens.json")
    tokens.write(ADA, OPS)
    url = databases.create()
    options: dict[str, int | str] = QUICK | {
        "tls_certificate_file": str(authority.issue("node")),
        "tls_client_ca_file": str(authority.path),
        "tokens_file": str(tokens.path),
        "cluster_secret": CLUSTER_SECRET,
    }
    with capture_logs(), running_node(url, **options) as node, closing(Client(node.url, authority.trusted())) as client:
        poll_until(lambda: client.send("GET", "/readyz").status == 200)
        yield node
    databases.drop(url)


@pytest.fixture
def muster(bare_muster: Muster, secure: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Muster:
    """Return the command, which knows the node, and trusts its authority."""
    monkeypatch.setenv("MUSTER_URL", secure.url)
    monkeypatch.setenv("MUSTER_TLS_CA_FILE", str(authority.path))
    return bare_muster


def test_certificate_authenticates_a_command(
    muster: Muster, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_CLIENT_CERTIFICATE_FILE", str(authority.issue("ops")))

    muster.ok("topics", "set", "orders", "--partitions", "3", "--actor", "ada")

    (change,) = muster.ok("changes", "list", "--json").json["changes"]
    assert change["actor"] == "ops (ada)"


def test_token_is_sent_over_https(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TOKEN", "ada's")

    muster.ok("groups", "list")


def test_node_of_an_unknown_authority_is_refused(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_TLS_CA_FILE")

    said = muster.refused(3, "groups", "list")
    assert "certificate verify failed" in said
    assert said.endswith("; correct the URL, or name its authorities in MUSTER_TLS_CA_FILE.")


@pytest.mark.parametrize("variable", ["MUSTER_TLS_CA_FILE", "MUSTER_CLIENT_CERTIFICATE_FILE"])
def test_invalid_file_is_reported(muster: Muster, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/nowhere.pem")

    said = muster.refused(2, "groups", "list")
    assert said.startswith("A file of MUSTER_TLS_CA_FILE, ")
    assert said.endswith("is invalid: No such file or directory.")


@pytest.mark.usefixtures("muster")
def test_platform_sees_that_its_node_is_ready(secure: Node) -> None:
    (node,) = local_nodes(secure.settings, 1)

    assert node.url.startswith("https://")
    poll_until(node.is_ready)


def test_doctor_says_why_a_node_is_not_reached(muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_TLS_CA_FILE", str(Authority(tmp_path / "another").path))
    (node,) = [each for each in muster("doctor", "--json").json["checks"] if each["check"] == "node"]

    assert (node["status"], "certificate verify failed" in node["message"]) == ("error", True)


def test_doctor_checks_certificates_and_encryption(
    muster: Muster, authority: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found() -> dict[str, tuple[str, str]]:
        checks = muster("doctor", "--json").json["checks"]
        return {each["check"]: (each["status"], each["message"]) for each in checks}

    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://me:secret@db.invalid:1/muster")
    poll_until(lambda: found()["node"][0] == "ok")
    plain = found()
    monkeypatch.setenv("MUSTER_TLS_CERTIFICATE_FILE", str(authority.issue("soon", days=3)))
    soon = found()
    monkeypatch.setenv("MUSTER_TLS_CERTIFICATE_FILE", str(authority.issue("later", days=60)))
    later = found()
    monkeypatch.setenv("MUSTER_TLS_CERTIFICATE_FILE", str(tmp_path / "absent.pem"))
    absent = found()

    assert plain["encryption"] == (
        "warning",
        "MUSTER_DATABASE_URL is not encrypted: sslmode is prefer, and db.invalid is another machine",
    )
    assert [each["TLS"][0] for each in (plain, soon, later, absent)] == ["ok", "warning", "ok", "error"]
    assert "absent.pem" in absent["TLS"][1]
