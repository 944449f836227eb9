"""A node mirrors a real Kafka: its groups, their history and their offsets, as the clients themselves saw them."""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg2
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # comes without types
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from mirror.kafka_log import KafkaConnection, KafkaLog
from muster.errors import UserError
from muster.node.mirror import prepare_database
from muster.node.schema import upgrade
from muster.settings import Settings, psql_url
from tests.support.http_client import Client
from tests.support.kafka_broker import CLUSTER_ID, KafkaBroker
from tests.support.kafka_log import create_topics
from tests.support.kafka_members import KafkaMember, kafka_members
from tests.support.mirror_process import partitions_read
from tests.support.nodes import running_node
from tests.support.repository import ROOT
from tests.support.waiting import PATIENCE_S, poll_until

_serial = count(1)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """Return a topic with four partitions, of which each has one record."""
    name = f"mirrored-{next(_serial)}"

    async def fill() -> None:
        await create_topics(kafka.bootstrap, {name: 4})
        await produce(kafka, name)
        async with consumer(kafka, name, f"first-{name}"):
            pass  # The cluster has the topic __consumer_offsets when it has had a group.

    asyncio.run(fill())
    return name


@asynccontextmanager
async def consumer(kafka: KafkaBroker, topic: str, group_id: str, **options: object) -> AsyncIterator[AIOKafkaConsumer]:
    """Run a member until it leaves."""
    member = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        **options,
    )
    async with member:
        while not member.assignment():  # noqa: ASYNC110 - the client notifies of nothing
            await asyncio.sleep(0.02)
        yield member


async def produce(kafka: KafkaBroker, topic: str) -> None:
    """Add a record to each of four partitions."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for partition in range(4):
            await producer.send_and_wait(topic, b"one", partition=partition)


def lags(client: Client, group_id: str) -> list[int | None]:
    """Return the lag in records of each partition of a group."""
    return [each["lag"] for each in client.ok("GET", f"/v1/groups/{group_id}/lag")["partitions"]]


async def until_assigned(member: AIOKafkaConsumer, partitions: int) -> None:
    """Wait until a member has so many partitions."""
    while len(member.assignment()) != partitions:
        await member.getmany(timeout_ms=20)


def ended_rebalances(client: Client, group_id: str, how_many: int) -> list[dict[str, Any]] | None:
    """Return the rebalances of a group, the newest first, when there are so many and all have ended."""
    found = client.call("GET", f"/v1/groups/{group_id}/rebalances")
    rows: list[dict[str, Any]] = found.json["rebalances"] if found.status == 200 else []
    return rows if len(rows) == how_many and all(row["outcome"] for row in rows) else None


def committed(client: Client, group_id: str) -> dict[int, int]:
    """Return the committed offsets of a group, by partition."""
    found = client.ok("GET", f"/v1/groups/{group_id}/offsets")["offsets"]
    return {each["partition"]: each["offset"] for each in found}


def quick(kafka: KafkaBroker) -> dict[str, str | int]:
    """Return the settings of a mirror that polls often."""
    return {
        "mirror_bootstrap_servers": kafka.bootstrap,
        "mirror_poll_interval_ms": 200,
        "mirror_group_poll_interval_ms": 100,
    }


@pytest.fixture
def client(kafka: KafkaBroker, topic: str, empty_database_url: str) -> Iterator[Client]:
    """Run a mirror."""
    settings = Settings(database_url=empty_database_url, mirror_bootstrap_servers=kafka.bootstrap)  # type: ignore[arg-type]
    prepare_database(settings, empty_database_url)
    with (
        running_node(empty_database_url, **quick(kafka)) as node,
        closing(Client(node.url)) as client,
    ):
        poll_until(lambda: client.call("GET", "/readyz").status == 200)
        with closing(psycopg2.connect(psql_url(empty_database_url))) as rows:
            rows.autocommit = True
            poll_until(lambda: partitions_read(rows) == 4)
        yield client


def test_rebalances_and_offsets_are_those_of_the_clients(kafka: KafkaBroker, topic: str, client: Client) -> None:
    group_id = f"payments-{topic}"

    async def consume() -> None:
        async with consumer(kafka, topic, group_id, client_id="first") as first:
            async with consumer(kafka, topic, group_id, client_id="second"):
                await until_assigned(first, 2)
            await until_assigned(first, 4)
            await first.commit(dict.fromkeys(first.assignment(), 1))

    asyncio.run(consume())

    rows = poll_until(lambda: ended_rebalances(client, group_id, 4))
    assert rows is not None
    rows.reverse()
    assert [(row["generation"], row["trigger"], row["outcome"]) for row in rows] == [
        (1, "member_joined", "completed"),
        (2, "member_joined", "completed"),
        (3, "member_left_or_expired", "completed"),
        (4, "member_left_or_expired", "emptied"),
    ]
    assert all(row["is_trigger_inferred"] for row in rows)
    assert [row["partitions_moved"] for row in rows] == [0, 2, 2, 0]
    poll_until(lambda: committed(client, group_id) == {0: 1, 1: 1, 2: 1, 3: 1})
    for page in ("rebalances", "transitions", "ownership", "member-sessions", "lag", "tuning", "config", "diagnosis"):
        client.ok("GET", f"/v1/groups/{group_id}/{page}")
    poll_until(lambda: lags(client, group_id) == [0, 0, 0, 0])
    asyncio.run(produce(kafka, topic))
    poll_until(lambda: lags(client, group_id) == [1, 1, 1, 1])
    partitions = client.ok("GET", f"/v1/groups/{group_id}/lag")["partitions"]
    assert [each["expires_at"] for each in partitions] == [None] * 4, "the cluster's retention is not known"


def test_rebalance_is_shown_while_it_waits_for_a_member(
    kafka: KafkaBroker, topic: str, client: Client, tmp_path: Path
) -> None:
    group_id = f"waiting-{topic}"
    patient = {"session_timeout_ms": 1_000 * PATIENCE_S, "max_poll_interval_ms": 1_000 * PATIENCE_S}
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        first = members.join("confluent-kafka", group_id, topic, client_id="first", **patient)
        first.wait_until(owns(4))
        poll_until(lambda: ended_rebalances(client, group_id, 1))
        first.pause()
        second = members.join("confluent-kafka", group_id, topic, client_id="second", **patient)
        poll_until(lambda: client.ok("GET", f"/v1/groups/{group_id}")["state"] == "PreparingRebalance")
        poll_until(lambda: listed_as_rebalancing(client) == [group_id])  # The list is that of the database.
        first.resume()
        second.wait_until(owns(2))
        rows = poll_until(lambda: ended_rebalances(client, group_id, 2))

    assert rows is not None
    newest = rows[0]
    assert (newest["trigger"], newest["outcome"], newest["is_start_inferred"]) == ("member_joined", "completed", False)
    assert newest["started_at"] < newest["joined_at"]


def listed_as_rebalancing(client: Client) -> list[str]:
    """Return the ids of the groups that the list of groups has in PreparingRebalance."""
    return [each["group_id"] for each in client.ok("GET", "/v1/groups?state=PreparingRebalance")["groups"]]


def test_console_of_a_mirror_names_the_cluster(client: Client) -> None:
    assert b'<p id="mirror"' in client.call("GET", "/").body


def test_metrics_of_a_mirror_are_on_the_page(client: Client) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(muster_mirror_\w+)`", page, re.MULTILINE))

    scrape = client.call("GET", "/metrics").body.decode()

    assert (
        set(re.findall(r"^(muster_mirror_\w+)", scrape, re.MULTILINE)) - {"muster_mirror_records_created"} == documented
    )


def test_operators_cannot_change_what_is_mirrored(topic: str, client: Client) -> None:
    group = f"/v1/groups/first-{topic}"
    changes = [
        client.call("DELETE", f"{group}?reason=test"),
        client.call("PUT", f"{group}/config", {"values": {"session_timeout_ms": 9_000}, "reason": "test"}),
        client.call("PUT", "/v1/topics/new", {"partitions": 3, "reason": "test"}),
        client.call("DELETE", f"/v1/topics/{topic}/log-ends?reason=test"),
        client.call("DELETE", f"/v1/topics/{topic}/log-ends?dry_run=true"),
        client.call("POST", f"{group}/heartbeat", {"generation": 1, "member_id": "m"}),
        client.call("POST", f"{group}/offsets", {"generation": -1, "member_id": "", "offsets": []}),
    ]

    assert [(each.status, each.code) for each in changes] == [(400, "INVALID_REQUEST")] * len(changes)
    assert all("mirrored Kafka cluster" in each.json["detail"] for each in changes)
    assert client.ok("GET", "/v1/config")["mirrored_cluster"] == CLUSTER_ID


def test_node_that_coordinates_refuses_the_database_of_a_mirror(client: Client, empty_database_url: str) -> None:
    with pytest.raises(UserError, match="The database mirrors the Kafka cluster"), running_node(empty_database_url):
        pass


def test_mirror_refuses_a_database_with_groups(kafka: KafkaBroker, topic: str, empty_database_url: str) -> None:
    settings = Settings(database_url=empty_database_url, mirror_bootstrap_servers=kafka.bootstrap)  # type: ignore[arg-type]
    upgrade(empty_database_url, shards=4)
    with (
        closing(psycopg2.connect(psql_url(empty_database_url))) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("INSERT INTO groups (group_id, shard_id, state, state_since) VALUES ('g', 0, 'Empty', now())")

    with pytest.raises(UserError, match="has groups of its own"):
        prepare_database(settings, empty_database_url)


def test_mirror_goes_on_after_the_broker_was_away(kafka: KafkaBroker, topic: str, client: Client) -> None:
    group_id = f"after-{topic}"
    kafka.stop()
    poll_until(lambda: client.call("GET", "/readyz").status == 503)
    kafka.start()

    asyncio.run(join_and_leave(kafka, topic, group_id))

    assert poll_until(lambda: ended_rebalances(client, group_id, 2))


async def join_and_leave(kafka: KafkaBroker, topic: str, group_id: str) -> None:
    """Let a group have a member for a moment."""
    async with consumer(kafka, topic, group_id):
        pass


# -- the consumer protocol -------------------------------------------------------------------------------------


def owns(how_many: int) -> Callable[[KafkaMember], bool]:
    """Return the condition that a member owns so many partitions."""
    return lambda member: len(member.owned()) == how_many


def owners(client: Client, group_id: str) -> dict[str, set[tuple[str, int]]]:
    """Return the partitions of a group's members, by client id."""
    members = client.ok("GET", f"/v1/groups/{group_id}")["members"]
    return {
        each["client_id"]: {
            (of["topic"], number) for of in each["assignment"]["partitions"] for number in of["partitions"]
        }
        for each in members
    }


def test_rebalances_of_the_consumer_protocol_are_those_of_the_clients(
    kafka: KafkaBroker, topic: str, client: Client, tmp_path: Path
) -> None:
    group_id = f"modern-{topic}"
    with kafka_members(tmp_path, kafka.bootstrap) as members:
        first = members.join("confluent-kafka", group_id, topic, client_id="first", group_protocol="consumer")
        first.wait_until(owns(4))
        second = members.join("confluent-kafka", group_id, topic, client_id="second", group_protocol="consumer")
        second.wait_until(owns(2))
        first.wait_until(owns(2))
        first.commit(1, "noted")
        expected = {"first": first.owned(), "second": second.owned()}
        poll_until(lambda: owners(client, group_id) == expected)
        poll_until(lambda: committed(client, group_id) == {number: 1 for _, number in first.owned()})
        second.leave()
        first.wait_until(owns(4))
        first.leave()
        ids = {each["client_id"]: each["member_id"] for each in members.events() if "member_id" in each}

    rows = poll_until(lambda: ended_rebalances(client, group_id, 4))
    assert rows is not None
    rows.reverse()
    assert [(row["generation"], row["trigger"], row["trigger_member_id"], row["outcome"]) for row in rows] == [
        (1, "member_joined", ids["first"], "completed"),
        (2, "member_joined", ids["second"], "completed"),
        (3, "member_left_or_expired", ids["second"], "completed"),
        (4, "member_left_or_expired", ids["first"], "emptied"),
    ]
    assert not any(row["is_start_inferred"] for row in rows)
    assert all(row["started_at"] <= row["joined_at"] for row in rows[:3])
    assert rows[2]["started_at"] < rows[2]["joined_at"], "the assignment follows with a heartbeat of the other member"


def test_names_of_topics_are_found_by_their_ids(kafka: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic_id = admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id
    halves = topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()
    known = UUID(bytes=struct.pack(">qq", *halves))

    async def names() -> dict[UUID, str]:
        async with KafkaLog(KafkaConnection(bootstrap_servers=kafka.bootstrap)) as log:
            return await log.topic_names([known, uuid4()])

    assert asyncio.run(names()) == {known: topic}


# -- without the log -------------------------------------------------------------------------------------------


def test_groups_of_both_protocols_are_polled(
    kafka: KafkaBroker, topic: str, empty_database_url: str, tmp_path: Path
) -> None:
    classic, modern = f"classic-{topic}", f"polled-{topic}"
    options = {**quick(kafka), "mirror_source": "poll"}
    settings = Settings(database_url=empty_database_url, **options)  # type: ignore[arg-type]
    prepare_database(settings, empty_database_url)
    with (
        running_node(empty_database_url, **options) as node,
        closing(Client(node.url)) as client,
        kafka_members(tmp_path, kafka.bootstrap) as members,
    ):
        poll_until(lambda: client.call("GET", "/readyz").status == 200)
        first = members.join("confluent-kafka", modern, topic, client_id="first", group_protocol="consumer")
        second = members.join("confluent-kafka", modern, topic, client_id="second", group_protocol="consumer")
        other = members.join("aiokafka", classic, topic, client_id="other")
        first.wait_until(owns(2))
        second.wait_until(owns(2))
        other.wait_until(owns(4))
        other.commit(1, "noted")
        first.commit(1, "noted")
        expected = {"first": first.owned(), "second": second.owned()}
        poll_until(lambda: is_known(client, modern) and owners(client, modern) == expected)
        poll_until(lambda: is_known(client, classic) and owners(client, classic) == {"other": other.owned()})
        poll_until(lambda: committed(client, classic) == dict.fromkeys(range(4), 1))
        poll_until(lambda: committed(client, modern) == {number: 1 for _, number in first.owned()})
        poll_until(lambda: lags(client, classic) == [0, 0, 0, 0])
        other.leave()
        poll_until(lambda: client.ok("GET", f"/v1/groups/{classic}")["state"] == "Empty")

    with pytest.raises(UserError, match="MUSTER_MIRROR_SOURCE=poll"):
        prepare_database(settings.model_copy(update={"mirror_source": "topic"}), empty_database_url)


def is_known(client: Client, group_id: str) -> bool:
    """Return whether the mirror has a group."""
    return client.call("GET", f"/v1/groups/{group_id}").status == 200


def test_mirrors_share_the_log_and_take_over_from_each_other(
    kafka: KafkaBroker, topic: str, empty_database_url: str
) -> None:
    settings = Settings(database_url=empty_database_url, mirror_bootstrap_servers=kafka.bootstrap)  # type: ignore[arg-type]
    prepare_database(settings, empty_database_url)
    options: dict[str, str | int] = {"mirror_bootstrap_servers": kafka.bootstrap, "lease_ttl_ms": 1_000}
    group_ids = [f"shared-{number}-{topic}" for number in range(6)]

    async def work() -> None:
        await asyncio.gather(*(join_and_leave(kafka, topic, group_id) for group_id in group_ids))

    with running_node(empty_database_url, **options) as one, closing(Client(one.url)) as client:
        with (
            running_node(empty_database_url, **options),
            closing(psycopg2.connect(psql_url(empty_database_url))) as rows,
        ):
            rows.autocommit = True
            poll_until(lambda: shards_of_nodes(rows) == [2, 2])
            poll_until(lambda: partitions_read(rows) == 4)
            asyncio.run(work())
            for group_id in group_ids:
                poll_until(lambda group_id=group_id: ended_rebalances(client, group_id, 2))  # type: ignore[misc]
        asyncio.run(work())

        for group_id in group_ids:
            found = poll_until(lambda group_id=group_id: ended_rebalances(client, group_id, 4))  # type: ignore[misc]
            assert found is not None
            assert sorted(str(row["generation"]) for row in found) == ["1", "2", "3", "4"]


def shards_of_nodes(rows: Connection) -> list[int]:
    """Return how many shards each node owns."""
    with rows.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shard_leases WHERE node_id IS NOT NULL GROUP BY node_id")
        return [int(count) for (count,) in cursor]
