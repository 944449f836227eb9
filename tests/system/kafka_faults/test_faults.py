"""Members of every client library go on by themselves, and no commit that was acknowledged is lost."""

import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.support.databases import Databases
from tests.support.http_client import Client, fresh_id
from tests.support.kafka_listener import PARTITIONS, TOPIC
from tests.support.kafka_member import OLD_PACKAGES
from tests.support.kafka_members import KafkaMember, KafkaMembers, kafka_members
from tests.support.peers import LIBRARIES, skip_without
from tests.support.waiting import poll_until
from tests.system.kafka_faults.cluster import Cluster, ClusterNode, running_cluster

pytestmark = [pytest.mark.slow]

ALL: Final = {(TOPIC, partition) for partition in range(PARTITIONS)}
WIDE_TOPIC: Final = "wide"
WIDE_PARTITIONS: Final = 24
"""So many that each node leads some."""
PATIENT_MS: Final = 45_000
"""A session timeout that no member misses while its node is away. A consumer of kafkajs that restarts waits for it."""


@pytest.fixture(scope="module")
def nodes(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    url = databases.create()
    with running_cluster(tmp_path_factory.mktemp("nodes"), url) as cluster:
        client = Client(next(iter(cluster.nodes.values())).url)
        client.ok("PUT", f"/v1/topics/{TOPIC}", {"partitions": PARTITIONS})
        client.ok("PUT", f"/v1/topics/{WIDE_TOPIC}", {"partitions": WIDE_PARTITIONS})
        client.close()
        yield cluster
    databases.drop(url)


@pytest.fixture
def cluster(nodes: Cluster) -> Cluster:
    nodes.restore()
    return nodes


class Workload:
    """Two members of a group, which commit one offset after the other, and what they were answered."""

    def __init__(self, cluster: Cluster, members: KafkaMembers, library: str) -> None:
        self.group_id: Final = fresh_id()
        self._cluster = cluster
        self._all = members
        self._offsets = count(1)
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._uncertain: dict[tuple[str, int], set[int]] = defaultdict(set)
        """Offsets whose commits have failed: they may have been stored nevertheless."""
        self._members = [
            members.join(library, self.group_id, TOPIC, client_id=each, session_timeout_ms=PATIENT_MS)
            for each in ("first", "second")
        ]
        self.wait_until_shared()

    def wait_until_shared(self) -> None:
        """Wait until each partition has one owner, and each member its half."""
        halves = PARTITIONS // 2
        poll_until(lambda: [len(each.owned()) for each in self._running()] == [halves] * 2)
        assert set().union(*(each.owned() for each in self._members)) == ALL

    def commit(self) -> None:
        """Let each member commit until it is acknowledged: members find the coordinator by themselves."""
        for member in self._members:
            poll_until(lambda: self._commit(member))  # noqa: B023  # called at once

    def send_commits(self) -> list[tuple[KafkaMember, int]]:
        """Let each member commit, and do not wait; `take_results` does."""
        sent = [(member, next(self._offsets)) for member in self._running()]
        for member, offset in sent:
            member.send_commit(offset, "x")
        return sent

    def take_results(self, sent: list[tuple[KafkaMember, int]]) -> None:
        """Wait for the results of commits; they may have failed."""
        for member, offset in sent:
            self._take_result(member, offset)

    def _commit(self, member: KafkaMember) -> bool:
        offset = next(self._offsets)
        member.send_commit(offset, "x")
        return self._take_result(member, offset)

    def _take_result(self, member: KafkaMember, offset: int) -> bool:
        owned = member.owned()
        member.wait_until(lambda member: member.result_of(offset))
        result = member.result_of(offset)
        assert result is not None, "it was waited for"
        partitions = {(topic, partition) for topic, partition in result["partitions"]}
        is_acknowledged = result["event"] == "committed"
        for each in partitions if is_acknowledged else owned | partitions:
            if is_acknowledged:
                self._acknowledged[each] = offset
            else:
                self._uncertain[each].add(offset)
        return is_acknowledged and bool(partitions)

    def _running(self) -> list[KafkaMember]:
        for each in self._members:
            assert each.is_running(), "its process has ended"
        return self._members

    def check(self, *, but: ClusterNode | None = None) -> None:
        """Compare what another node than `but` has stored with what was acknowledged, and check the owners."""
        stored = self._cluster.offsets(self.group_id, but=but)
        for partition, offset in self._acknowledged.items():
            later = {each for each in self._uncertain[partition] if each > offset}
            assert stored.get(partition) in {offset, *later}, (partition, offset, stored, self._all.events())
        owners: dict[tuple[int, tuple[str, int]], set[str]] = defaultdict(set)
        for event in self._all.events():
            if event["event"] == "assigned" and event.get("generation", -1) > 0:
                for topic, number in event["partitions"]:
                    owners[event["generation"], (topic, number)].add(event["client_id"])
        assert [key for key, clients in owners.items() if len(clients) > 1] == []


@pytest.fixture
def workload(cluster: Cluster, library: str, tmp_path: Path) -> Iterator[Workload]:
    skip_without(library, tmp_path)
    with kafka_members(tmp_path, cluster.bootstrap) as members:
        yield Workload(cluster, members, library)


def restart_all(cluster: Cluster, workload: Workload) -> None:
    """Restart the nodes one after the other, as an upgrade does."""
    for node in cluster.nodes.values():
        sent = workload.send_commits()
        node.stop()
        workload.take_results(sent)
        workload.check(but=node)
        workload.commit()
        workload.check(but=node)
        node.start()
        node.wait_until_ready()


def kill_owner(cluster: Cluster, workload: Workload) -> None:
    """Kill the node that owns the group, with commits in progress."""
    owner = cluster.owner(workload.group_id)
    sent = workload.send_commits()
    owner.kill()
    workload.take_results(sent)
    workload.check(but=owner)
    workload.commit()
    workload.check(but=owner)
    owner.start()
    owner.wait_until_ready()


def stop_owner_until_its_leases_are_lost(cluster: Cluster, workload: Workload) -> None:
    """Stop the process of the owner, with commits in progress, and resume it when another node owns the group."""
    owner = cluster.owner(workload.group_id)
    owner.signal(signal.SIGSTOP)
    sent = workload.send_commits()
    cluster.owner(workload.group_id, but=owner)
    workload.check(but=owner)
    owner.signal(signal.SIGCONT)
    workload.take_results(sent)
    workload.commit()
    workload.check()
    owner.wait_until_ready()


FAULTS: Final[list[Callable[[Cluster, Workload], None]]] = [
    restart_all,
    kill_owner,
    stop_owner_until_its_leases_are_lost,
]


@pytest.mark.parametrize(
    "library", ["kafka-python", "aiokafka", *(pytest.param(each, marks=pytest.mark.peers) for each in OLD_PACKAGES)]
)
def test_member_knows_a_restarted_node_when_all_others_are_gone(cluster: Cluster, library: str, tmp_path: Path) -> None:
    skip_without(library, tmp_path)
    restarted, *others = cluster.nodes.values()
    with kafka_members(tmp_path, cluster.bootstrap) as members:
        restarted.stop()
        member = members.join(library, fresh_id(), WIDE_TOPIC, client_id="alone", session_timeout_ms=PATIENT_MS)
        member.wait_until(lambda member: len(member.owned()) == WIDE_PARTITIONS)
        restarted.start()
        restarted.wait_until_ready()
        member.wait_until(lambda _: restarted.answered("Fetch"))
        member.commit(1, "x")
        for node in others:
            node.stop()
        member.commit(2, "x")
        for node in others:
            node.start()
            node.wait_until_ready()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_members_go_on_and_no_acknowledged_commit_is_lost(
    fault: Callable[[Cluster, Workload], None], cluster: Cluster, workload: Workload
) -> None:
    workload.commit()
    workload.check()

    fault(cluster, workload)

    workload.wait_until_shared()
    workload.commit()
    workload.check()
