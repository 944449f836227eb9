"""Contract tests: lists of groups and their pages."""

import pytest

from coordinator_core.queries.groups import GroupFilter, ListedGroup, read_groups
from coordinator_core.state_store.interface import Store
from tests.support.store_rows import NOW_MS, group_row, rebalance_row, transition_row, write
from tests.support.store_worlds import NODE, Owner, Query, World


def ids(query: Query, **which: object) -> list[str]:
    return [line.group_id for line in query(read_groups, GroupFilter(**which))]  # type: ignore[arg-type]  # each test gives what fits


def write_groups(owner: Owner, *group_ids: str) -> None:
    owner.write(*(write(group_id, group=group_row(group_id)) for group_id in group_ids))


def died(group_id: str, **given: object) -> tuple[object, ...]:
    return (transition_row(group_id, to_state="Dead", **given),)


def test_line_shows_group_state_and_coordinator(owner: Owner, store: Store, query: Query) -> None:
    owner.write(write(group=group_row(generation=4, member_count=3, shard_id=2), shard_id=2))
    assert query(read_groups, GroupFilter()) == [ListedGroup("orders", "Stable", "consumer", 4, 3, 0, NODE)]
    store.release(NODE, owner.epochs)
    assert [line.node_id for line in query(read_groups, GroupFilter())] == [None]


def test_rebalances_that_ended_within_an_hour_are_counted(owner: Owner, world: World, query: Query) -> None:
    minutes = (0, 59, 61)
    ended = (world.today_ms() - minute * 60_000 for minute in minutes)
    rows = tuple(rebalance_row(f"r-{at_ms}", "g", completed_at_ms=at_ms) for at_ms in ended)
    owner.write(write("g", group=group_row("g"), rebalances=rows), write("h", group=group_row("h")))
    assert [line.rebalances_last_hour for line in query(read_groups, GroupFilter())] == [2, 0]
    former = rebalance_row("former", "h", completed_at_ms=world.today_ms(), group_created_at_ms=NOW_MS - 1)
    owner.write(write("h", rebalances=(former,)))
    assert [line.rebalances_last_hour for line in query(read_groups, GroupFilter())] == [2, 0]


def test_groups_are_ordered_by_bytes(owner: Owner, query: Query) -> None:
    write_groups(owner, "b", "a", "B", "ä", "a-1", "\U0001f600", "\uffee")
    assert ids(query) == ["B", "a", "a-1", "b", "ä", "\uffee", "\U0001f600"]


def test_pages_join_without_gap_or_repeat(owner: Owner, query: Query) -> None:
    names = [f"g{number:02}" for number in range(7)]
    write_groups(owner, *names)
    pages, after = [], None
    while page := ids(query, after=after, limit=3):
        pages.append(page)
        after = page[-1]
    assert pages == [names[:3], names[3:6], names[6:]]


def test_page_continues_after_a_deleted_group(owner: Owner, query: Query) -> None:
    write_groups(owner, "a", "c")
    assert ids(query, after="b") == ["c"]


@pytest.mark.parametrize(("prefix", "found"), [("ab", ["ab", "ab%", "abc"]), ("ab%", ["ab%"]), ("", 5), ("x", [])])
def test_a_prefix_narrows_and_is_taken_by_its_letters(owner: Owner, prefix: str, found: object, query: Query) -> None:
    write_groups(owner, "a", "ab", "abc", "ab%", "b")
    listed = ids(query, prefix=prefix)
    assert (listed if isinstance(found, list) else len(listed)) == found


def test_a_prefix_and_a_page_go_together(owner: Owner, query: Query) -> None:
    write_groups(owner, "a", "b1", "b2", "b3", "c")
    assert ids(query, prefix="b", after="b1", limit=1) == ["b2"]


def test_states_and_protocol_type_narrow(owner: Owner, query: Query) -> None:
    owner.write(
        write("stable", group=group_row("stable")),
        write("empty", group=group_row("empty", state="Empty")),
        write("simple", group=group_row("simple", state="Empty", protocol_type=None)),
        write("connect", group=group_row("connect", protocol_type="connect")),
    )
    assert ids(query, states=frozenset({"Empty"})) == ["empty", "simple"]
    assert ids(query, states=frozenset({"Empty", "Stable"}), protocol_type="consumer") == ["empty", "stable"]
    assert ids(query, protocol_type="connect") == ["connect"]


def test_dead_groups_are_listed_on_request_only(owner: Owner, query: Query) -> None:
    owner.write(write("alive", group=group_row("alive"), transitions=(transition_row("alive"),)))
    owner.write(write("dead", is_group_deleted=True, transitions=died("dead", generation=6)))
    assert ids(query) == ["alive"]
    assert query(read_groups, GroupFilter(states=frozenset({"Dead"}))) == [
        ListedGroup("dead", "Dead", None, 6, 0, 0, NODE)
    ]
    assert ids(query, states=frozenset({"Dead", "Stable"})) == ["alive", "dead"]


def test_a_group_that_died_twice_is_listed_once_with_its_last_generation(owner: Owner, query: Query) -> None:
    owner.write(write("g", is_group_deleted=True, transitions=died("g", generation=9)))
    owner.write(write("g", is_group_deleted=True, transitions=died("g", generation=2, at_ms=NOW_MS + 1)))
    assert [line.generation for line in query(read_groups, GroupFilter(states=frozenset({"Dead"})))] == [2]


def test_recreated_group_is_not_dead(owner: Owner, query: Query) -> None:
    owner.write(write("g", is_group_deleted=True, transitions=died("g")))
    owner.write(write("g", group=group_row("g")))
    assert ids(query, states=frozenset({"Dead"})) == []


def test_dead_groups_are_paged_and_filtered_by_prefix(owner: Owner, query: Query) -> None:
    for group_id in ("a", "b1", "b2", "b3"):
        owner.write(write(group_id, is_group_deleted=True, transitions=died(group_id)))
    dead = frozenset({"Dead"})
    assert ids(query, states=dead, prefix="b", after="b1", limit=1) == ["b2"]
    assert ids(query, states=dead, protocol_type="consumer") == []


def test_live_and_dead_groups_share_one_page(owner: Owner, query: Query) -> None:
    write_groups(owner, "a", "c", "e")
    for group_id in ("b", "d"):
        owner.write(write(group_id, is_group_deleted=True, transitions=died(group_id)))
    everybody = frozenset({"Dead", "Stable"})
    assert ids(query, states=everybody, limit=3) == ["a", "b", "c"]
    assert ids(query, states=everybody, limit=3, after="c") == ["d", "e"]
