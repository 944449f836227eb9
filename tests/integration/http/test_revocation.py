"""Tokens that are revoked, narrowed or expire while their clients are connected, and nodes with a wrong wall clock."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from tests.integration.http.node_pair import OPTIONS, Pair
from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, Answer, Client, Group, Json, join_body, position
from tests.support.nodes import CLUSTER_SECRET, Node, running_node
from tests.support.ports import free_port
from tests.support.tokens_file import ADA, DAN, DAN_ELSEWHERE, TokensFile
from tests.support.waiting import PATIENCE_S, poll_until

DAN_UNTIL_1970: Final = {**DAN, "expires_at": "1970-01-02T00:00:00Z"}
OF_DAN: Final = {"Authorization": "Bearer dan's"}


class ClientOfAda(Client):
    """A client with the token of ada."""

    def call(self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON as ada, unless another token is given."""
        return super().call(method, path, body, {"Authorization": "Bearer ada's", **(headers or {})})


class GuardedPair(Pair):
    """Two nodes with tokens."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.clients = [ClientOfAda(node.url) for node in nodes]


@pytest.fixture
def file(tmp_path: Path) -> TokensFile:
    return TokensFile.written(tmp_path, ADA, DAN)


@pytest.fixture
def pair(databases: Databases, file: TokensFile) -> Iterator[Pair]:
    """Serve two nodes with the tokens of ada and dan."""
    url = databases.create()
    with ExitStack() as stack:
        options = {**OPTIONS, "tokens_file": str(file.path)}
        pair = GuardedPair([stack.enter_context(running_node(url, **options)) for _ in range(2)])
        for client in pair.clients:
            stack.enter_context(closing(client))
        pair.balance_shards()
        yield pair
    databases.drop(url)


def status_of_dan(client: Client, group: Group) -> int:
    return client.call("GET", group.path, None, OF_DAN).status


@pytest.mark.parametrize(
    ("entry", "status"),
    [(None, 401), (DAN_UNTIL_1970, 401), (DAN_ELSEWHERE, 403)],
    ids=["revoked", "expired", "narrowed"],
)
def test_a_parked_join_is_refused_once_its_token_does_not_allow_it(
    pair: Pair, file: TokensFile, entry: Json, status: int
) -> None:
    """The join of the first client is parked at the owner of the group; that of the second one is forwarded there."""
    group = pair.clients[0].group(pair.owned_by(0))
    leader = group.stable(session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
    with ThreadPoolExecutor(2) as threads:
        body = join_body(require_known_member_id=False, session_timeout_ms=60_000, rebalance_timeout_ms=60_000)
        joins = [threads.submit(one.call, "POST", f"{group.path}/join", body, OF_DAN) for one in pair.clients]
        poll_until(lambda: len(group.describe()["members"]) == 3)
        file.write(ADA, *([entry] if entry else []))
        poll_until(lambda: [status_of_dan(one, group) for one in pair.clients] == [status, status])
        group.post("join", join_body(member_id=leader.member_id))

        answers = [each.result(PATIENCE_S) for each in joins]
    assert [answer.status for answer in answers] == [status, status]


def test_a_request_whose_body_comes_once_its_token_is_revoked_is_refused(pair: Pair, file: TokensFile) -> None:
    client, group = pair.clients[0], pair.clients[0].group(pair.owned_by(0))
    body = client.encoded({"generation": -1, "member_id": "", "offsets": [position(1)]})
    connection = client.connect()
    connection.putrequest("POST", f"{group.path}/offsets")
    for name, value in {**OF_DAN, **AS_JSON, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    poll_until(lambda: status_of_dan(client, group) == 404)
    file.write(ADA)
    poll_until(lambda: status_of_dan(client, group) == 401)
    connection.send(body)

    assert connection.getresponse().status == 401
    connection.close()


# -- wall clocks ---------------------------------------------------------------------------------------------

STEPPED_CLOCK: Final = """
import sys, time
offset_file, wall_s, wall_ns = sys.argv.pop(1), time.time, time.time_ns
offset_s = lambda: int(open(offset_file).read() or 0)
time.time = lambda: wall_s() + offset_s()
time.time_ns = lambda: wall_ns() + offset_s() * 10**9
from muster.cli.main import main
main()
"""
"""Run the command with a wall clock that a file moves."""


@contextmanager
def node_with_moved_clock(database_url: str, tokens: TokensFile, offset: Path) -> Iterator[Client]:
    port = free_port()
    settings = {
        "MUSTER_DATABASE_URL": database_url,
        "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "MUSTER_TOKENS_FILE": str(tokens.path),
        "MUSTER_CLUSTER_SECRET": CLUSTER_SECRET,
    }
    command = [sys.executable, "-c", STEPPED_CLOCK, str(offset), "serve", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--data-dir", str(offset.parent)],
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE_S)[0], "the node did not start"
            with closing(ClientOfAda(f"http://127.0.0.1:{port}")) as client:
                yield client
        finally:
            process.kill()


def test_steps_of_the_wall_clock_move_the_expiry_of_tokens_and_evict_no_member(
    database_url: str, file: TokensFile, tmp_path: Path
) -> None:
    offset = tmp_path / "offset"
    offset.write_text("0")
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    file.write(ADA, {**DAN, "expires_at": in_an_hour.isoformat()})
    with node_with_moved_clock(database_url, file, offset) as client:
        member = client.group("g").stable(session_timeout_ms=60_000)
        assert status_of_dan(client, member.group) == 200
        for hours, status in ((2, 401), (-2, 200), (0, 200)):
            offset.write_text(str(hours * 3_600))
            poll_until(lambda status=status: status_of_dan(client, member.group) == status)  # type: ignore[misc]  # of this step
            assert member.post("heartbeat").status == 200
            assert member.commit({"topic": "orders", "partition": 0, "offset": 1}).status == 200
        assert member.group.describe()["generation"] == 1
