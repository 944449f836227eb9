"""What members of Kafka groups have reported, compared with the rows of a mirror and with Kafka's own log."""

from collections.abc import Iterable, Mapping
from typing import Final

from psycopg2.extensions import connection as Connection  # noqa: N812 - a class under a function's name

from mirror.consumer_groups import Result
from mirror.observed import ObservedCommit
from mirror.offsets_topic import Decoded
from mirror.record_reader import REPLACEMENT
from tests.support.kafka_members import Event
from tests.support.mirrored_history import History

NO_GENERATION: Final = -1


def client_ids(rows: Connection) -> dict[str, str]:
    """Return the client ids of members by member id."""
    with rows.cursor() as cursor:
        cursor.execute(
            "SELECT member_id, client_id FROM member_sessions UNION SELECT member_id, client_id FROM members"
        )
        return dict(cursor.fetchall())


def assignments_without_rows(events: Iterable[Event], history: History, clients: Mapping[str, str]) -> list[Event]:
    """Return the assignments that members have reported and the rows do not have.

    Args:
        events: what members have reported. Java's have no member id, nor has one of aiokafka that has just lost its
            place, but each member has a client id of its own; confluent-kafka's have no generation.
        history: the rows.
        clients: client ids by member id.
    """
    return [event for event in events if event["event"] == "assigned" and not _has_rows(event, history, clients)]


def commits_not_in_log(events: Iterable[Event], seen: Iterable[Decoded | Result]) -> list[Event]:
    """Return the commits that were answered without an error and that the log does not have."""
    # A commit of confluent-kafka ends with NUL, which was replaced.
    logged = {
        (each.group_id, each.topic, each.partition, each.offset, each.metadata.rstrip(REPLACEMENT))
        for each in seen
        if isinstance(each, ObservedCommit)
    }
    return [
        event
        for event in events
        if event["event"] == "committed"
        for (topic, partition), offset in zip(event["partitions"], _offsets(event), strict=True)
        if (event["group_id"], topic, partition, offset, event.get("metadata", "")) not in logged
    ]


def _has_rows(event: Event, history: History, clients: Mapping[str, str]) -> bool:
    group = history.get(event["group_id"])
    if group is None:
        return False
    own_id, generation = event.get("member_id"), event.get("generation")

    def is_of_event(member_id: str, since: int) -> bool:
        is_member = member_id == own_id if own_id else clients.get(member_id) == event["client_id"]
        return is_member and (generation in {None, NO_GENERATION} or since <= generation)

    owned = {(each.topic, each.partition) for each in group.owned if is_of_event(each.member_id, each.generation)}
    partitions = {(topic, partition) for topic, partition in event["partitions"]}
    # A static member that has a new id in the same generation has a session, and is in no row of a rebalance.
    return partitions <= owned and any(is_of_event(member_id, 0) for member_id in clients)


def _offsets(event: Event) -> list[int]:
    return event.get("offsets") or [event["offset"]] * len(event["partitions"])
