"""One node serves a whole file of tests, and the command is run in this process, as `muster` runs it."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from muster.cli import main
from muster.settings import ENVIRONMENT_PREFIX, psql_url
from tests.api.client import Client, Group, Json, fresh_id
from tests.cli.fake_node import FakeNode
from tests.conftest import Databases
from tests.nodes import Node, running_node

QUICK = {"group_initial_rebalance_delay_ms": 0}
PATIENT: Json = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
"""How members join that are waited for, however slow the machine is."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command said, and how it ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever it printed
        """Return what it printed for programs."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """Return the words of every line but the headings."""
        return [line.split() for line in self.out.splitlines()[1:]]


class Muster:
    """The command, for one node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        """Run the command with these arguments."""
        self._monkeypatch.setattr(sys, "argv", ["muster", *arguments])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err)

    def ok(self, *arguments: str) -> Ran:
        """Run a command that must succeed."""
        ran = self(*arguments)
        assert (ran.exit_code, ran.err) == (0, ""), ran
        return ran

    def refused(self, exit_code: int, *arguments: str) -> str:
        """Run a command that must fail, and return what it said on stderr."""
        ran = self(*arguments)
        assert ran.exit_code == exit_code, ran
        assert ran.err.startswith("muster: "), ran
        assert "Traceback" not in ran.err
        return ran.err.removeprefix("muster: ").rstrip("\n")


@pytest.fixture(scope="module")
def node(databases: Databases) -> Iterator[Node]:
    url = databases.create()
    # What the node notes would stand in the midst of what the command prints.
    with capture_logs(), running_node(url, **QUICK) as node:
        yield node
    databases.drop(url)


@pytest.fixture(scope="module")
def client(node: Node) -> Iterator[Client]:
    with closing(Client(node.url)) as client:
        yield client


@pytest.fixture
def group(client: Client) -> Group:
    """Give a group that does not exist yet."""
    return client.group(fresh_id())


@pytest.fixture
def fake() -> Iterator[FakeNode]:
    fake = FakeNode()
    yield fake
    fake.close()


@pytest.fixture
def bare_muster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Muster:
    """Give the command in an environment that sets nothing of ours but an empty data directory."""
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path_factory.mktemp("data")))
    return Muster(monkeypatch, capsys)


@pytest.fixture
def muster(bare_muster: Muster, node: Node, monkeypatch: pytest.MonkeyPatch) -> Muster:
    """Give the command, which asks the node of this file."""
    monkeypatch.setenv("MUSTER_URL", node.url)
    monkeypatch.setenv("MUSTER_ACTOR", "ada")
    return bare_muster


def commit(group: Group, *offsets: Json) -> None:
    """Commit as a consumer that is in no group."""
    body = {"generation": -1, "member_id": "", "offsets": list(offsets)}
    group.client.ok("POST", f"{group.path}/offsets", body)


def offsets_of(group: Group) -> dict[tuple[str, int], int]:
    """Return what a group has committed."""
    found = group.client.ok("GET", f"{group.path}/offsets")["offsets"]
    return {(each["topic"], each["partition"]): each["offset"] for each in found}


@pytest.fixture
def rows(node: Node) -> Iterator[PsycopgConnection]:
    """Connect to the node's database; every statement commits by itself."""
    assert node.settings.database_url is not None
    connection = psycopg2.connect(psql_url(node.settings.database_url.get_secret_value()))
    connection.autocommit = True
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def ends_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust no reporter for other groups: the tests of a file share a node and the topic orders, and no ends of it."""
    monkeypatch.setattr("api.http.call.EVERY_TOPIC", ())
