"""Contract tests: lists of groups and their pages."""

import pytest

from coordinator_core.store.interface import Store
from coordinator_core.store.rows import GroupFilter, ListedGroup
from tests.support.store_rows import NOW_MS, committed, group_row, transition_row, write
from tests.support.store_worlds import NODE, Owner


def ids(store: Store, **which: object) -> list[str]:
    return [line.group_id for line in store.list_groups(GroupFilter(**which))]  # type: ignore[arg-type]  # each test gives what fits


def write_groups(owner: Owner, *group_ids: str) -> None:
    owner.write(*(write(group_id, group=group_row(group_id)) for group_id in group_ids))


def died(group_id: str, **given: object) -> tuple[object, ...]:
    return (transition_row(group_id, to_state="Dead", **given),)


def test_line_shows_group_state_and_coordinator(owner: Owner, store: Store) -> None:
    owner.write(write(group=group_row(generation=4, member_count=3, shard_id=2), shard_id=2))
    assert store.list_groups(GroupFilter()) == [ListedGroup("orders", "Stable", "consumer", 4, 3, NODE)]
    store.release(NODE, owner.epochs)
    assert [line.node_id for line in store.list_groups(GroupFilter())] == [None]


def test_groups_are_ordered_by_bytes(owner: Owner, store: Store) -> None:
    write_groups(owner, "b", "a", "B", "ä", "a-1", "\U0001f600", "\uffee")
    assert ids(store) == ["B", "a", "a-1", "b", "ä", "\uffee", "\U0001f600"]


def test_pages_join_without_gap_or_repeat(owner: Owner, store: Store) -> None:
    names = [f"g{number:02}" for number in range(7)]
    write_groups(owner, *names)
    pages, after = [], None
    while page := ids(store, after=after, limit=3):
        pages.append(page)
        after = page[-1]
    assert pages == [names[:3], names[3:6], names[6:]]


def test_page_continues_after_a_deleted_group(owner: Owner, store: Store) -> None:
    write_groups(owner, "a", "c")
    assert ids(store, after="b") == ["c"]


@pytest.mark.parametrize(("prefix", "found"), [("ab", ["ab", "ab%", "abc"]), ("ab%", ["ab%"]), ("", 5), ("x", [])])
def test_a_prefix_narrows_and_is_taken_by_its_letters(owner: Owner, store: Store, prefix: str, found: object) -> None:
    write_groups(owner, "a", "ab", "abc", "ab%", "b")
    listed = ids(store, prefix=prefix)
    assert (listed if isinstance(found, list) else len(listed)) == found


def test_a_prefix_and_a_page_go_together(owner: Owner, store: Store) -> None:
    write_groups(owner, "a", "b1", "b2", "b3", "c")
    assert ids(store, prefix="b", after="b1", limit=1) == ["b2"]


def test_states_and_protocol_type_narrow(owner: Owner, store: Store) -> None:
    owner.write(
        write("stable", group=group_row("stable")),
        write("empty", group=group_row("empty", state="Empty")),
        write("simple", group=group_row("simple", state="Empty", protocol_type=None)),
        write("connect", group=group_row("connect", protocol_type="connect")),
    )
    assert ids(store, states=frozenset({"Empty"})) == ["empty", "simple"]
    assert ids(store, states=frozenset({"Empty", "Stable"}), protocol_type="consumer") == ["empty", "stable"]
    assert ids(store, protocol_type="connect") == ["connect"]


def test_dead_groups_are_listed_on_request_only(owner: Owner, store: Store) -> None:
    owner.write(write("alive", group=group_row("alive"), transitions=(transition_row("alive"),)))
    owner.write(write("dead", is_group_deleted=True, transitions=died("dead", generation=6)))
    assert ids(store) == ["alive"]
    assert store.list_groups(GroupFilter(states=frozenset({"Dead"}))) == [ListedGroup("dead", "Dead", None, 6, 0, NODE)]
    assert ids(store, states=frozenset({"Dead", "Stable"})) == ["alive", "dead"]


def test_a_group_that_died_twice_is_listed_once_with_its_last_generation(owner: Owner, store: Store) -> None:
    owner.write(write("g", is_group_deleted=True, transitions=died("g", generation=9)))
    owner.write(write("g", is_group_deleted=True, transitions=died("g", generation=2, at_ms=NOW_MS + 1)))
    assert [line.generation for line in store.list_groups(GroupFilter(states=frozenset({"Dead"})))] == [2]


def test_recreated_group_is_not_dead(owner: Owner, store: Store) -> None:
    owner.write(write("g", is_group_deleted=True, transitions=died("g")))
    owner.write(write("g", group=group_row("g")))
    assert ids(store, states=frozenset({"Dead"})) == []


def test_dead_groups_are_paged_and_filtered_by_prefix(owner: Owner, store: Store) -> None:
    for group_id in ("a", "b1", "b2", "b3"):
        owner.write(write(group_id, is_group_deleted=True, transitions=died(group_id)))
    dead = frozenset({"Dead"})
    assert ids(store, states=dead, prefix="b", after="b1", limit=1) == ["b2"]
    assert ids(store, states=dead, protocol_type="consumer") == []


def test_live_and_dead_groups_share_one_page(owner: Owner, store: Store) -> None:
    write_groups(owner, "a", "c", "e")
    for group_id in ("b", "d"):
        owner.write(write(group_id, is_group_deleted=True, transitions=died(group_id)))
    everybody = frozenset({"Dead", "Stable"})
    assert ids(store, states=everybody, limit=3) == ["a", "b", "c"]
    assert ids(store, states=everybody, limit=3, after="c") == ["d", "e"]


def test_has_history_is_true_for_groups_with_transitions(owner: Owner, store: Store) -> None:
    owner.write(write("seen", transitions=(transition_row("seen"),)), write("quiet", committed=(committed(),)))
    assert [store.has_history(group_id) for group_id in ("seen", "quiet", "unheard")] == [True, False, False]
