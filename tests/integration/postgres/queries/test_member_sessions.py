"""Contract tests: lists of member sessions."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_core.analytics.frequency import EVICTION_REASONS
from coordinator_core.queries.member_sessions import (
    RECONNECT_WINDOW_MS,
    ListedMemberSession,
    MemberSessionCursor,
    MemberSessionFilter,
    read_member_sessions,
)
from coordinator_core.state_store.ledger import ONGOING
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.rows import MemberSessionRow
from tests.support.frequency_rules import is_successor
from tests.support.store_rows import NOW_MS, group_row, member_row, session_row, write
from tests.support.store_worlds import Owner, Query

ALL = MemberSessionFilter("orders")


def session(member_id: str, began_s: int, ended_s: int, **given: object) -> MemberSessionRow:
    """Return a session that started and ended so many seconds after NOW_MS."""
    row: dict[str, Any] = {"joined_at_ms": NOW_MS + 1_000 * began_s, "started_at_ms": NOW_MS + 1_000 * began_s}
    row |= {"ended_at_ms": NOW_MS + 1_000 * ended_s, **given}
    return session_row(member_id, **row)


def sessions_in(query: Query, which: MemberSessionFilter = ALL) -> list[tuple[str, int | None]]:
    """Return the members of the sessions, and after how many seconds each reconnected."""
    found = query(read_member_sessions, which, None, 100)
    return [
        (
            each.row.member_id,
            None if each.reconnected_at_ms is None else (each.reconnected_at_ms - each.row.ended_at_ms) // 1_000,
        )
        for each in found
    ]


def test_sessions_are_listed_newest_first_with_every_column(owner: Owner, query: Query) -> None:
    old, new = session("a", 0, 9, last_heartbeat_at_ms=None, heartbeat_gap_ms_max=None), session("b", 1, 10)
    owner.write(write(sessions=(old, new)), write("other", sessions=(session_row("c", "other"),)))
    assert query(read_member_sessions, ALL, None, 10) == [
        ListedMemberSession(new, None),
        ListedMemberSession(old, None),
    ]
    assert query(read_member_sessions, ALL, None, 1) == [ListedMemberSession(new, None)]


def test_pages_join_simultaneous_sessions(owner: Owner, query: Query) -> None:
    sessions = tuple(session(f"m-{number}", 0, number // 3) for number in range(8))
    # After a failover to a node whose clock is behind, the last row of a session has no length.
    owner.write(write(group=group_row(), sessions=(*sessions, session("m-6", 2, 2))))
    pages: list[list[ListedMemberSession]] = []
    after: MemberSessionCursor | None = None
    while page := query(read_member_sessions, ALL, after, 2):
        pages.append(page)
        after = page[-1].cursor
    assert [len(page) for page in pages] == [2, 2, 2, 2, 1]
    assert [each for page in pages for each in page] == query(read_member_sessions, ALL, None, 10)


def test_sessions_are_filtered_by_time_and_end_reason(owner: Owner, query: Query) -> None:
    rows = (session("a", 0, 1), session("b", 0, 2, end_reason="hour"), session("c", 0, 3, end_reason="session_expired"))
    owner.write(write(sessions=rows))
    second, third = NOW_MS + 2_000, NOW_MS + 3_000
    assert sessions_in(query, MemberSessionFilter("orders", from_ms=second)) == [("c", None), ("b", None)]
    assert sessions_in(query, MemberSessionFilter("orders", to_ms=third)) == [("b", None), ("a", None)]
    assert sessions_in(query, MemberSessionFilter("orders", end_reasons=("left", "hour"))) == [("b", None), ("a", None)]


def test_rejoin_within_a_minute_is_reported(owner: Owner, query: Query) -> None:
    gone = session("x-1", 0, 10, end_reason="session_expired")
    again = session("x-2", 14, 20, end_reason="session_expired")
    owner.write(write(sessions=(gone, again), members={"x-3": member_row("x-3", joined_at_ms=NOW_MS + 22_000)}))
    assert sessions_in(query) == [("x-2", 2), ("x-1", 4)]


@pytest.mark.parametrize(
    "other",
    [
        {"client_host": "elsewhere"},
        {"client_id": "another"},
        {"group_instance_id": "static"},
        {"joined_at_ms": NOW_MS + 10_000 + RECONNECT_WINDOW_MS + 1},
        {"joined_at_ms": NOW_MS + 9_999},
        {"member_id": "x-1"},
    ],
    ids=["host", "client", "instance", "late", "early", "itself"],
)
def test_other_client_is_no_rejoin(owner: Owner, other: dict[str, object], query: Query) -> None:
    gone = session("x-1", 0, 10, end_reason="session_expired")
    comes: dict[str, Any] = {"member_id": "x-2", "joined_at_ms": NOW_MS + 11_000, "ended_at_ms": NOW_MS + 90_000}
    comer = session_row(**{**comes, **other})
    owner.write(write(sessions=(gone, comer)))
    assert sessions_in(query)[-1] == ("x-1", None)


def test_member_whose_successor_joined_while_it_was_silent_was_dead(owner: Owner, query: Query) -> None:
    """A crash loop: each process joins before the member of the previous one is evicted."""
    lives = [session(f"x-{number}", 31 * number, 31 * number + 43, end_reason="session_expired") for number in range(3)]
    heard = [replace(each, last_heartbeat_at_ms=each.ended_at_ms - 15_000) for each in lives]
    owner.write(write(sessions=tuple(heard)))
    assert sessions_in(query) == [("x-2", None), ("x-1", None), ("x-0", None)]
    successors = [each.successor_at_ms for each in query(read_member_sessions, ALL, None, 1)]
    assert successors == [None]
    assert [each.successor_at_ms for each in query(read_member_sessions, ALL, None, 3)[1:]] == [
        heard[2].joined_at_ms,
        heard[1].joined_at_ms,
    ]


def test_client_that_joined_before_the_last_heartbeat_is_no_successor(owner: Owner, query: Query) -> None:
    gone = session("x-1", 0, 20, end_reason="session_expired", last_heartbeat_at_ms=NOW_MS + 5_000)
    twin = session("x-2", 5, 90)
    again = session("x-3", 22, 90)
    owner.write(write(sessions=(gone, twin, again)))
    assert sessions_in(query)[-1] == ("x-1", 2)


def test_member_that_left_reconnects_even_with_an_earlier_join(owner: Owner, query: Query) -> None:
    gone = session("x-1", 0, 20, end_reason="left", last_heartbeat_at_ms=NOW_MS + 5_000)
    owner.write(write(sessions=(gone, session("x-2", 10, 90), session("x-3", 22, 90))))
    [left] = query(read_member_sessions, MemberSessionFilter("orders", to_ms=NOW_MS + 30_000), None, 10)
    assert (left.reconnected_at_ms, left.successor_at_ms) == (NOW_MS + 22_000, None)


def test_static_member_is_identified_on_any_host(owner: Owner, query: Query) -> None:
    gone = session("x-1", 0, 10, group_instance_id="one")
    again = session("x-2", 12, 20, group_instance_id="one", client_host="elsewhere", client_id="another")
    owner.write(write(sessions=(gone, again)))
    assert sessions_in(query) == [("x-2", None), ("x-1", 2)]


def test_open_session_has_no_rejoin(owner: Owner, query: Query) -> None:
    owner.write(write(sessions=(session("x-1", 0, 10, end_reason="hour"), session("x-2", 11, 12))))
    assert sessions_in(query) == [("x-2", None), ("x-1", None)]


SESSIONS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ä"]),
        st.integers(0, 200),
        st.integers(0, 90),
        st.sampled_from([None, "one", "two"]),
        st.sampled_from(["left", "session_expired", "hour"]),
        st.sampled_from([None, 0, 30]),
    ),
    max_size=10,
    unique_by=lambda each: (each[0], each[1] + each[2]),
)
"""Member, second of its arrival, how many seconds it stayed, instance, how it ended, and how long it was silent."""
EXAMPLES = count()


@given(lives=SESSIONS, first=st.integers(0, 200), length=st.integers(0, 200))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reconnects_are_those_of_the_same_client(
    postgres_store: PostgresStore,
    lives: list[tuple[str, int, int, str | None, str, int | None]],
    first: int,
    length: int,
    query: Query,
) -> None:
    group_id = f"sessions-{next(EXAMPLES)}"
    rows = tuple(
        replace(
            session(name, began, began + long, group_id=group_id, group_instance_id=instance, end_reason=how),
            last_heartbeat_at_ms=None if silent is None else NOW_MS + 1_000 * (began + max(0, long - silent)),
        )
        for name, began, long, instance, how, silent in lives
    )
    which = MemberSessionFilter(group_id, NOW_MS + 1_000 * first, NOW_MS + 1_000 * (first + length))
    Owner(postgres_store).write(write(group_id, group=group_row(group_id), sessions=rows))
    everything = sorted((expected(row, rows) for row in rows), key=lambda each: each.cursor, reverse=True)
    selected = [each for each in everything if which.from_ms <= each.row.ended_at_ms < which.to_ms]
    assert query(read_member_sessions, MemberSessionFilter(group_id), None, 100) == everything
    assert query(read_member_sessions, which, None, 4) == selected[:4]


def expected(row: MemberSessionRow, rows: Iterable[MemberSessionRow]) -> ListedMemberSession:
    """Return the list entry of a session, given all sessions of the group."""
    if row.end_reason == ONGOING:
        return ListedMemberSession(row, None)
    silent_since_ms = row.started_at_ms if row.last_heartbeat_at_ms is None else row.last_heartbeat_at_ms
    arrivals = [each.joined_at_ms for each in rows if each.member_id != row.member_id and client(each) == client(row)]
    successors = [at_ms for at_ms in arrivals if is_successor(silent_since_ms, at_ms, row.ended_at_ms)]
    if successors and row.end_reason in EVICTION_REASONS:
        return ListedMemberSession(row, None, min(successors))
    reconnects = [at_ms for at_ms in arrivals if 0 <= at_ms - row.ended_at_ms <= RECONNECT_WINDOW_MS]
    return ListedMemberSession(row, min(reconnects, default=None))


def client(row: MemberSessionRow) -> tuple[str, ...]:
    return (row.client_id, row.client_host) if row.group_instance_id is None else (row.group_instance_id,)
