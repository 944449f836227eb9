"""An assignment that another one would improve is found, and named in the diagnosis."""

from collections.abc import Sequence

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.queries.diagnosis import diagnose
from coordinator_core.queries.uneven_assignment import (
    PAIRS_MAX,
    PARTITIONS_MAX,
    UnevenAssignment,
    read_uneven_assignment,
)
from coordinator_core.runtime.views import EffectiveSetting
from tests.support.store_rows import NOW_MS, group_row, member_row, write
from tests.support.store_worlds import Owner, Query

SETTINGS = {
    key: EffectiveSetting(getattr(GroupSettings(), key), "default")
    for key in ("session_timeout_ms", "rebalance_timeout_ms")
}


class Topics:
    """Topic metadata in the database."""

    def __init__(self, connection: PsycopgConnection) -> None:
        self._connection = connection

    def put(self, **partitions: int) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany("INSERT INTO topics (topic, partitions) VALUES (%s, %s)", list(partitions.items()))


@pytest.fixture
def topics(sql_connection: PsycopgConnection) -> Topics:
    return Topics(sql_connection)


def assign(
    owner: Owner,
    *shares: dict[str, Sequence[int]],
    state: str = "Stable",
    subscribed: Sequence[str] = ("clicks", "views"),
) -> None:
    """Store a group whose members "m-0", "m-1", … own these partitions."""
    members = {
        f"m-{place}": member_row(
            f"m-{place}",
            client_id=f"client-{place}",
            subscription_json={"topics": list(subscribed)},
            assignment_json=[{"topic": topic, "partitions": list(numbers)} for topic, numbers in share.items()],
        )
        for place, share in enumerate(shares)
    }
    owner.write(write(group=group_row(state=state, protocol_name="range"), members=members))


def test_the_member_with_most_partitions_is_named(owner: Owner, query: Query, topics: Topics) -> None:
    topics.put(clicks=1, views=1)
    assign(owner, {}, {"clicks": [0], "views": [0]}, {})
    assert query(read_uneven_assignment, "orders") == UnevenAssignment(
        None, "client-1", "127.0.0.1", owned=2, best_max=1, partitions=2, idle_members=2, protocol_name="range"
    )
    (finding,) = query(diagnose, "orders", SETTINGS, NOW_MS)
    assert (finding.kind, finding.setting) == ("uneven", None)
    assert finding.text == (
        "client-1 at 127.0.0.1 owns 2 of 2 partitions, and 2 members own none: the assignment is uneven. Another one"
        " gives no member more than 1. range assigns each topic by itself: roundrobin, sticky and cooperative-sticky"
        " spread partitions of all topics."
    )


def test_an_assignment_that_cannot_be_better_is_not_uneven(owner: Owner, query: Query, topics: Topics) -> None:
    topics.put(clicks=3)
    assign(owner, {"clicks": [0, 1]}, {"clicks": [2]}, subscribed=["clicks"])
    assert query(read_uneven_assignment, "orders") is None


def test_little_unevenness_is_not_reported(owner: Owner, query: Query, topics: Topics) -> None:
    topics.put(clicks=10, views=10)
    assign(owner, {"clicks": range(10), "views": [0]}, {"views": range(1, 10)})
    assert query(read_uneven_assignment, "orders") is None


def test_what_cannot_be_judged_is_not_reported(owner: Owner, query: Query, topics: Topics) -> None:
    topics.put(clicks=1, views=1)
    assign(owner, {}, {"clicks": [0], "views": [0]}, state="CompletingRebalance")
    assert query(read_uneven_assignment, "orders") is None
    assert query(read_uneven_assignment, "nobody") is None
    opaque = {"m-1": member_row("m-1", subscription_json=None)}
    owner.write(write(group=group_row(state="Stable"), members=opaque))
    assert query(read_uneven_assignment, "orders") is None


def test_a_large_assignment_is_left_to_the_audit(owner: Owner, query: Query, topics: Topics) -> None:
    topics.put(clicks=PARTITIONS_MAX + 1)
    assign(owner, {"clicks": range(PARTITIONS_MAX + 1)}, {}, subscribed=["clicks"])
    assert query(read_uneven_assignment, "orders") is None


def test_very_many_members_and_topics_are_left_to_the_audit(owner: Owner, query: Query) -> None:
    names = [f"t-{number}" for number in range(500)]
    assign(owner, {"t-0": [0], "t-1": [0]}, *[{}] * (PAIRS_MAX // len(names)), subscribed=names)
    assert query(read_uneven_assignment, "orders") is None
