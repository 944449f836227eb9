"""Groups of Go's client libraries have the rows that their members have reported."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.go_members import GoUnavailable, go_member
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics
from tests.support.kafka_members import KafkaMember, KafkaMembers, kafka_members
from tests.support.mirror_process import running_mirror
from tests.support.mirrored_history import GroupHistory, logged_history, read_log, stored_history
from tests.support.reported_history import assignments_without_rows, client_ids, commits_not_in_log
from tests.support.waiting import poll_until

pytestmark = pytest.mark.slow

TOPIC = "go-orders"
PARTITIONS = 4
PATIENT_MS = 300_000
"""Session timeout of members that must not expire, however slow the machine is."""


class Members:
    """Members of one group, and the rows of the mirror about it."""

    def __init__(self, members: KafkaMembers, library: str, group_id: str) -> None:
        self.group_id = group_id
        self.history = GroupHistory()
        """The rows, when the group is over."""
        self._members = members
        self._library = library

    def join(self, number: int, **options: object) -> KafkaMember:
        """Start a member."""
        client_id = f"{self.group_id}-{number}"
        options = {"session_timeout_ms": PATIENT_MS, **options}
        return self._members.join(self._library, self.group_id, TOPIC, client_id=client_id, **options)

    def ids(self, number: int) -> list[str]:
        """Return the member ids that a client has had, in order."""
        client_id = f"{self.group_id}-{number}"
        ids = [
            each["member_id"]
            for each in self._members.events()
            if each["client_id"] == client_id and "member_id" in each
        ]
        return list(dict.fromkeys(ids))

    def sizes(self) -> list[int]:
        """Return the number of members of each generation."""
        return [len(generation.members) for generation in self.history.generations]


@pytest.fixture(params=["franz-go", "sarama"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a library; skip the test where it cannot be had."""
    name = str(request.param)
    try:
        go_member(tmp_path, name)
    except GoUnavailable as why:
        pytest.skip(str(why))
    return name


@pytest.fixture(scope="module")
def topic(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a topic of a cluster that has had a group."""
    asyncio.run(create_topics(kafka.bootstrap, {TOPIC: PARTITIONS}))
    with kafka_members(tmp_path_factory.mktemp("before"), kafka.bootstrap) as members:
        members.join("aiokafka", "before-go", TOPIC, client_id="before").wait_until(owns(PARTITIONS))
    return TOPIC


@contextmanager
def mirrored(kafka: KafkaBroker, library: str, scenario: str, database_url: str, directory: Path) -> Iterator[Members]:
    """Let a group work during a block, and compare its rows with Kafka's log and with what its members reported."""
    group_id = f"{scenario}-{library}"
    with (
        running_mirror(kafka.bootstrap, database_url, directory) as (_, rows),
        kafka_members(directory, kafka.bootstrap) as members,
    ):
        group = Members(members, library, group_id)
        yield group
        seen = read_log(kafka.bootstrap, {})
        wanted = logged_history(seen, group_id)
        poll_until(lambda: stored_history(rows, group_id) == wanted)
        group.history = wanted[group_id]
        assert assignments_without_rows(members.events(), wanted, client_ids(rows)) == []
        assert commits_not_in_log(members.events(), seen) == []


def owns(count: int) -> Callable[[KafkaMember], bool]:
    """Return the condition that a member owns so many partitions."""
    return lambda member: len(member.owned()) == count


def test_members_join_commit_crash_and_leave(
    kafka: KafkaBroker, library: str, topic: str, empty_database_url: str, tmp_path: Path
) -> None:
    with mirrored(kafka, library, "classic", empty_database_url, tmp_path) as group:
        first = group.join(1)
        first.wait_until(owns(4))
        second = group.join(2, session_timeout_ms=10_000)
        second.wait_until(owns(2))
        first.wait_until(owns(2))
        first.commit(11, "first")
        second.commit(22, "second")
        second.kill()
        first.wait_until(owns(4))
        first.leave()

    assert group.sizes() == [1, 2, 1, 0]
    offsets = {commit.offset: commit.metadata for commit in group.history.offsets.values()}
    assert offsets == {11: "first", 22: "second"}


def test_cooperative_members_keep_what_they_own(
    kafka: KafkaBroker, library: str, topic: str, empty_database_url: str, tmp_path: Path
) -> None:
    options = {"assignor": "cooperative-sticky"}
    with mirrored(kafka, library, "cooperative", empty_database_url, tmp_path) as group:
        first = group.join(1, **options)
        first.wait_until(owns(4))
        second = group.join(2, **options)
        second.wait_until(owns(2))
        first.commit(5, "kept")
        first.leave()
        second.wait_until(owns(4))
        second.leave()

    assert group.sizes() == [1, 2, 2, 1, 0]
    [first_id] = group.ids(1)
    assert [owned.generation for owned in group.history.owned if owned.member_id == first_id] == [1, 1, 1, 1]


def test_static_member_comes_back_under_a_new_id_without_a_rebalance(
    kafka: KafkaBroker, library: str, topic: str, empty_database_url: str, tmp_path: Path
) -> None:
    with mirrored(kafka, library, "static", empty_database_url, tmp_path) as group:
        for _ in range(2):
            member = group.join(1, group_instance_id="host-1")
            member.wait_until(owns(4))
            member.kill()

    assert group.sizes() == [1]
    old_id, new_id = group.ids(1)
    assert [owned.member_id for owned in group.history.owned].count(new_id) == 4
    assert {owned.member_id for owned in group.history.owned} == {old_id, new_id}
