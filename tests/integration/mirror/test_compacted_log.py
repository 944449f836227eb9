"""A mirror that starts again after compaction has the groups and offsets that are left in the log."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from mirror.group_records import GroupEpoch
from mirror.observed import ObservedCommit, ObservedGroup
from mirror.offsets_topic import decode
from tests.support.kafka_broker import QUICK, KafkaBroker, KafkaUnavailable, running_kafka
from tests.support.kafka_log import OFFSETS_TOPIC, create_topics, read_topic
from tests.support.kafka_members import KafkaMember, KafkaMembers, kafka_members
from tests.support.mirror_process import running_mirror
from tests.support.mirrored_history import History, stored_history
from tests.support.reported_history import client_ids
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.timeout(1_800)]

TOPIC = "compacted-orders"
GROUPS = ("compacted-classic", "compacted-consumer")
PATIENT = {"session_timeout_ms": 300_000}
OPTIONS: dict[str, dict[str, object]] = {GROUPS[0]: dict(PATIENT), GROUPS[1]: {"group_protocol": "consumer"}}
CLEANER = {**QUICK, "log.cleaner.backoff.ms": "200", "group.consumer.session.timeout.ms": "60000"}
CLEANED_SOON = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.001"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Run a broker whose log of groups is compacted some seconds after it is written."""
    directory = tmp_path_factory.mktemp("compacting")
    try:
        with running_kafka(directory, CLEANER) as broker:
            asyncio.run(create_topics(broker.bootstrap, {TOPIC: 2}))
            with kafka_members(directory, broker.bootstrap) as members:
                members.join("aiokafka", "before", TOPIC, client_id="before").wait_until(KafkaMember.owned)
            entries = [
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in CLEANED_SOON.items()
            ]
            resource = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.incremental_alter_configs([resource])[resource].result()
            yield broker
    except KafkaUnavailable as why:
        pytest.skip(str(why))


def test_rows_are_those_of_the_compacted_log(kafka: KafkaBroker, empty_database_url: str, tmp_path: Path) -> None:
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        joined = {group_id: [join(members, group_id, 1)] for group_id in GROUPS}
        with running_mirror(kafka.bootstrap, empty_database_url, tmp_path) as (_, rows):
            commit(joined, 1)
            poll_until(lambda: offsets(stored_history(rows, "compacted-")) == {group_id: {1} for group_id in GROUPS})
        for number in (2, 3):
            for group_id, of_group in joined.items():
                of_group.append(join(members, group_id, number))
                of_group.pop(0).leave()
                of_group[0].wait_until(lambda member: len(member.owned()) == 2)
            commit(joined, number)
        wait_until_compacted(kafka, joined)

        with running_mirror(kafka.bootstrap, empty_database_url, tmp_path) as (_, rows):
            poll_until(lambda: offsets(stored_history(rows, "compacted-")) == {group_id: {9} for group_id in GROUPS})
            for [member] in joined.values():
                member.leave()
            poll_until(lambda: are_empty(stored_history(rows, "compacted-")))
            history, clients = stored_history(rows, "compacted-"), client_ids(rows)

    for group_id in GROUPS:
        generations = history[group_id].generations
        numbers = [generation.number for generation in generations]
        assert numbers == sorted(set(numbers)), "each generation has one row"
        assert [clients[member_id] for member_id in generations[-2].members] == [f"{group_id}-3"]


def join(members: KafkaMembers, group_id: str, number: int) -> KafkaMember:
    """Start a member of the group's protocol, and return when it owns partitions."""
    member = members.join("confluent-kafka", group_id, TOPIC, client_id=f"{group_id}-{number}", **OPTIONS[group_id])
    member.wait_until(KafkaMember.owned)
    return member


def commit(joined: dict[str, list[KafkaMember]], offset: int) -> None:
    for [member] in joined.values():
        member.commit(offset, "kept")


def wait_until_compacted(kafka: KafkaBroker, joined: dict[str, list[KafkaMember]]) -> None:
    """Commit until the log has nothing of the groups but what it says last of each key."""

    def is_compacted() -> bool:
        commit(joined, 9)  # Only a write begins a new segment, and the newest one is not compacted.
        records = [decode(record.key, record.value) for record in asyncio.run(read_topic(kafka.bootstrap))]
        commits = {each.offset for each in records if isinstance(each, ObservedCommit) and each.group_id in GROUPS}
        groups = [each.group_id for each in records if isinstance(each, ObservedGroup | GroupEpoch)]
        return commits == {9} and all(groups.count(group_id) == 1 for group_id in GROUPS)

    poll_until(is_compacted)


def are_empty(history: History) -> bool:
    return all(not group.generations[-1].members for group in history.values())


def offsets(history: History) -> dict[str, set[int]]:
    """Return the committed offsets of each group."""
    return {group_id: {commit.offset for commit in group.offsets.values()} for group_id, group in history.items()}
