"""Changes: recorded with their effects, listed, and undone once; archived offsets can be read."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import cast

import pytest
from sqlalchemy import Executable

from coordinator_core.queries.changes import PAGE_MAX_BYTES, ChangeFilter, ChangePage, read_changes
from coordinator_core.queries.runs import read_runs
from coordinator_core.state_store.change_actions import ChangeAction
from coordinator_core.state_store.interface import NotUndoable, Store
from coordinator_core.state_store.postgres.connections import Result, Transaction
from coordinator_core.state_store.rows import ChangeRow, RecordedChange, TopicRow, UndoneChange, Versions
from coordinator_core.state_store.runs import GROUP_CLEANUP
from tests.support.store_rows import (
    NOW_MS,
    SHARD,
    candidate,
    change_row,
    committed,
    outcome,
    removed,
    run_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import Owner, Query, World

UNDO = change_row("undo", action="undo", at_ms=NOW_MS + 5)


def ids(found: list[RecordedChange]) -> list[str]:
    return [one.change.change_id for one in found]


# -- noted and listed -------------------------------------------------------------------------------------


def test_a_change_is_stored_with_what_it_changes(owner: Owner, store: Store) -> None:
    change = change_row(group_id="orders", before={"offsets": [1]}, after={"a": None})
    owner.write(write(committed=(committed(),), changes=(change,)))
    assert store.change(uuid_of("change")) == RecordedChange(change, None, None)


def test_write_with_a_change_only_is_stored(owner: Owner, store: Store) -> None:
    owner.write(write(changes=(change_row(),)))
    assert store.change(uuid_of("change")) is not None


def test_a_refused_group_s_change_is_not_stored(owner: Owner, store: Store) -> None:
    written = owner.write(write(committed=(committed(metadata="\0"),), changes=(change_row(),)))
    assert written.refused_groups.keys() == {"orders"}
    assert store.change(uuid_of("change")) is None


@pytest.mark.parametrize("change_id", [uuid_of("nothing"), "no uuid", "", "\0"])
def test_unknown_change_is_not_found(store: Store, change_id: str) -> None:
    assert store.change(change_id) is None


def test_changes_are_listed_newest_first_page_by_page(owner: Owner, query: Query) -> None:
    names = ["b", "a", "c"]
    rows = [change_row(name, at_ms=NOW_MS + (0 if name == "c" else 7)) for name in names]
    owner.write(*(write(changes=(row,)) for row in rows))
    first, second = sorted([uuid_of("a"), uuid_of("b")], reverse=True)
    everything = query(read_changes, ChangeFilter()).changes
    assert ids(everything) == [first, second, uuid_of("c")]
    assert ids(query(read_changes, ChangeFilter(limit=2)).changes) == [first, second]
    for place, found in enumerate(everything):
        after = (found.change.at_ms, found.change.change_id)
        assert query(read_changes, ChangeFilter(after=after)).changes == everything[place + 1 :]


class Interrupted:
    """A transaction in which something else happens after its first statement."""

    def __init__(self, transaction: Transaction, happens: Callable[[], object]) -> None:
        self._transaction = transaction
        self._happens = [happens]

    def execute(self, statement: Executable) -> Result:
        result = self._transaction.execute(statement)
        if self._happens:
            self._happens.pop()()
        return result


def test_a_change_that_is_made_during_a_read_hides_no_other(owner: Owner, query: Query) -> None:
    owner.write(*(write(changes=(change_row(name, at_ms=NOW_MS),)) for name in ("a", "b")))
    new = write(changes=(change_row("new", at_ms=NOW_MS + 1),))

    def read(transaction: Transaction) -> ChangePage:
        interrupted = cast(Transaction, Interrupted(transaction, lambda: owner.write(new)))
        return read_changes(interrupted, ChangeFilter())

    found = query(read)
    assert {uuid_of("a"), uuid_of("b")} <= set(ids(found.changes))
    assert not found.has_more


def test_a_page_ends_behind_large_changes(owner: Owner, query: Query) -> None:
    """A thousand resets of 10,000 partitions would be gigabytes."""
    digests = [sha256(str(number).encode()).hexdigest() for number in range(PAGE_MAX_BYTES // 64)]
    names = ["c", "b", "a"]
    owner.write(*(write(changes=(change_row(name, at_ms=NOW_MS, after=digests),)) for name in names))
    first = query(read_changes, ChangeFilter())
    assert (len(first.changes), first.has_more) == (1, True)
    newest = first.changes[0].change
    rest = query(read_changes, ChangeFilter(after=(newest.at_ms, newest.change_id), limit=2))
    assert (len(rest.changes), rest.has_more) == (1, True)


def test_changes_of_one_group_are_listed(owner: Owner, query: Query) -> None:
    owner.write(write(changes=(change_row("ours", group_id="orders"), change_row("theirs", group_id="views"))))
    owner.write(write(changes=(change_row("nobody's"),)))
    assert ids(query(read_changes, ChangeFilter(group_id="orders")).changes) == [uuid_of("ours")]


def test_undone_changes_of_a_group_are_found(owner: Owner, store: Store) -> None:
    first, second = (change_row(str(at), group_id="orders", at_ms=NOW_MS + at) for at in (1, 2))
    elsewhere = change_row("3", group_id="views", at_ms=NOW_MS + 3)
    undone = tuple(UndoneChange(uuid_of(name), NOW_MS + 5, uuid_of("undo")) for name in "13")
    owner.write(write(changes=(first, second, elsewhere)))
    owner.write(write(changes=(UNDO,), undone=undone))
    assert store.undone_changes("orders") == [RecordedChange(first, NOW_MS + 5, uuid_of("undo"))]


def test_changes_are_filtered_by_actor_and_action(owner: Owner, query: Query) -> None:
    owner.write(write(changes=(change_row("hers", actor="Ada"), change_row("job's", actor="dag:a_b"))))
    owner.write(write(changes=(change_row("reset", actor="ada", action=ChangeAction.RESET_OFFSETS),)))
    assert set(ids(query(read_changes, ChangeFilter(actor="aDA")).changes)) == {uuid_of("hers"), uuid_of("reset")}
    assert ids(query(read_changes, ChangeFilter(actor="a_")).changes) == [uuid_of("job's")]
    actions = frozenset({ChangeAction.RESET_OFFSETS, ChangeAction.UNDO})
    assert ids(query(read_changes, ChangeFilter(actor="ada", actions=actions)).changes) == [uuid_of("reset")]


def test_decisions_on_empty_runs_can_be_left_out(owner: Owner, world: World, query: Query) -> None:
    for name, counts in {"empty": {"candidates": 0}, "full": {"candidates": 2}, "unknown": {}}.items():
        world.propose(run_row(name, counts=counts), [], [])
        after = {"run_id": uuid_of(name)}
        owner.write(write(changes=(change_row(f"apply {name}", action=ChangeAction.APPLY_RUN, after=after),)))
    owner.write(write(changes=(change_row("other", after={"run_id": "no uuid"}),)))
    kept = {uuid_of("apply full"), uuid_of("apply unknown"), uuid_of("other")}
    assert set(ids(query(read_changes, ChangeFilter(has_empty_runs=False)).changes)) == kept
    assert set(ids(query(read_changes, ChangeFilter()).changes)) == {*kept, uuid_of("apply empty")}


def test_undo_is_stored_with_its_offsets(owner: Owner, store: Store) -> None:
    owner.write(write(changes=(change_row(),)))
    undone = UndoneChange(uuid_of("change"), NOW_MS + 5, uuid_of("undo"))
    owner.write(write(changes=(UNDO,), undone=(undone,)))
    found = store.change(uuid_of("change"))
    assert found is not None
    assert (found.undone_at_ms, found.undone_by_change_id) == (NOW_MS + 5, uuid_of("undo"))
    assert store.change(uuid_of("undo")) == RecordedChange(UNDO, None, None)


# -- what was taken ---------------------------------------------------------------------------------------


def take(owner: Owner, change: str, *partitions: int, group_id: str = "orders") -> None:
    """Commit and take away some partitions under a change."""
    records = tuple(committed(partition=number, offset=10 + number) for number in partitions)
    owner.write(write(group_id, committed=records))
    seen = owner.store.stored_offsets(group_id)
    owner.write(write(group_id, removed=tuple(removed(one, change) for one in seen)))


def test_archived_offsets_of_a_change_are_returned(owner: Owner, store: Store) -> None:
    take(owner, "change", 2, 0, 1)
    take(owner, "change", 0, group_id="views")
    take(owner, "other", 0)
    taken = store.archived_offsets(uuid_of("change"), "orders")
    assert [(row.partition, row.offset, row.cause) for row in taken] == [
        (0, 10, "deleted"),
        (1, 11, "deleted"),
        (2, 12, "deleted"),
    ]
    some = store.archived_offsets(uuid_of("change"), "orders", [("clicks", 1), ("views", 0)])
    assert [row.partition for row in some] == [1]


def test_reset_archives_and_commits_in_one_write(owner: Owner, store: Store, world: World) -> None:
    owner.write(write(committed=(committed(offset=5),)))
    (seen,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(seen, cause="reset"),), committed=(committed(offset=2),)))
    assert [one.offset for one in store.fetch_offsets("orders")] == [2]
    assert [(row.offset, row.cause) for row in world.history().archived] == [(5, "reset")]
    assert world.history().offset_history == []


# -- topics that go and come back ---------------------------------------------------------------------------


def test_a_deleted_topic_leaves_the_topic_metadata_and_a_run_over_its_offsets(
    owner: Owner, store: Store, world: World
) -> None:
    store.put_topic("clicks", 3, 4, change_row("put"))
    owner.write(write(committed=(committed(), committed("views"))), write("b", committed=(committed(partition=2),)))
    noted = store.delete_topic("clicks", change_row("delete"))
    assert noted is not None
    assert noted.before == {"topic": "clicks", "partitions": 3, "log_start_offset": 4}
    assert noted.after == {"topic": "clicks", "run_id": uuid_of("delete"), "candidates": 2}
    assert (store.topics(), store.versions()) == ([], Versions(0, 0, 2, 1))
    found = store.next_candidates([SHARD], 10)
    versions = {row.partition: row.commit_version for group in ("orders", "b") for row in store.stored_offsets(group)}
    assert [(row.group_id, row.topic, row.partition, row.kind, row.undoes) for row in found] == [
        ("b", "clicks", 2, "topic_deletion", None),
        ("orders", "clicks", 0, "topic_deletion", None),
    ]
    assert found[0].commit_version == versions[2]
    assert {row.change_id for row in found} == {uuid_of("delete")}
    assert world.run(uuid_of("delete")).counts == {"candidates": 2, "undecided": 2}


def test_unknown_topic_is_not_deleted(store: Store, query: Query) -> None:
    assert store.delete_topic("clicks", change_row()) is None
    assert (store.change(uuid_of("change")), query(read_runs)) == (None, [])


def test_a_topic_is_deleted_once_under_one_change(store: Store) -> None:
    store.put_topic("clicks", 3, None, change_row("put"))
    first = store.delete_topic("clicks", change_row("delete"))
    store.put_topic("clicks", 1, None, change_row("again"))
    assert store.delete_topic("clicks", change_row("delete")) == first
    assert [row.partitions for row in store.topics()] == [1]


def test_deleted_topic_is_restored_with_a_run_over_archived_offsets(owner: Owner, store: Store) -> None:
    store.put_topic("clicks", 3, 4, change_row("put"))
    owner.write(write(committed=(committed(),)))
    store.delete_topic("clicks", change_row("delete", action="delete_topic"))
    assert store.finish_runs() == []
    (seen,) = store.stored_offsets("orders")
    decided = outcome(0, "removed", run="delete")
    owner.write(write(removed=(removed(seen, "delete"),), outcomes=(decided,)))
    assert store.finish_runs() == [uuid_of("delete")]

    noted = store.begin_undo(uuid_of("delete"), UNDO)
    assert noted.after == {
        "undoes": uuid_of("delete"),
        "action": "delete_topic",
        "run_id": uuid_of("undo"),
        "topic": {"topic": "clicks", "outcome": "restored"},
        "candidates": 1,
    }
    assert store.topics() == [TopicRow("clicks", 3, 4, 3)]
    (row,) = store.next_candidates([SHARD], 10)
    assert (row.run_id, row.group_id, row.topic, row.partition) == (uuid_of("undo"), "orders", "clicks", 0)
    assert (row.kind, row.undoes) == ("undo", uuid_of("delete"))


def test_recreated_topic_is_kept(store: Store) -> None:
    store.put_topic("clicks", 3, 4, change_row("put"))
    store.delete_topic("clicks", change_row("delete", action="delete_topic"))
    store.finish_runs()
    store.put_topic("clicks", 1, None, change_row("again"))
    assert store.begin_undo(uuid_of("delete"), UNDO).after["topic"] == {"topic": "clicks", "outcome": "newer_there"}
    assert [row.partitions for row in store.topics()] == [1]


# -- the undo of a run --------------------------------------------------------------------------------------


@pytest.fixture
def applied(world: World, owner: Owner, store: Store) -> None:
    """Give a run that is applied under the change `apply`, and took one offset."""
    world.propose(run_row(), [candidate(0)])
    store.begin_apply(uuid_of("run"), change_row("apply", action="apply_run"))
    owner.write(write(committed=(committed(),)))
    (seen,) = store.stored_offsets("orders")
    owner.write(write(removed=(removed(seen, "apply"),), outcomes=(outcome(0),)))


def test_a_run_that_is_under_way_is_not_undone(applied: None, store: Store) -> None:
    with pytest.raises(NotUndoable, match="still"):
        store.begin_undo(uuid_of("apply"), UNDO)
    assert store.change(uuid_of("undo")) is None


def test_a_run_is_undone_once(applied: None, store: Store, query: Query) -> None:
    store.finish_runs()
    noted = store.begin_undo(uuid_of("apply"), UNDO)
    assert (noted.after["run_id"], noted.after["candidates"]) == (uuid_of("undo"), 1)
    assert store.begin_undo(uuid_of("apply"), UNDO) == noted
    with pytest.raises(NotUndoable, match="already"):
        store.begin_undo(uuid_of("apply"), change_row("again"))
    undone = store.change(uuid_of("apply"))
    assert undone is not None
    assert (undone.undone_at_ms, undone.undone_by_change_id) == (UNDO.at_ms, uuid_of("undo"))
    assert [run.kind for run in query(read_runs)] == ["undo", "offset_retention"]


def test_a_cleanup_is_not_undone(world: World, store: Store) -> None:
    world.propose(run_row(kind=GROUP_CLEANUP), [])
    store.begin_apply(uuid_of("run"), change_row("apply", action="apply_run"))
    store.finish_runs()
    with pytest.raises(NotUndoable, match="nothing to restore"):
        store.begin_undo(uuid_of("apply"), UNDO)
    assert store.change(uuid_of("undo")) is None


# -- settings -------------------------------------------------------------------------------------------------


def setting_row(name: str, at_ms: int, group_id: str | None = None) -> ChangeRow:
    return change_row(name, action="put_settings", at_ms=at_ms, group_id=group_id)


def settings_undone(store: Store, change: str, undo: ChangeRow = UNDO) -> list[tuple[str, str, str | None]]:
    noted = store.undo_settings(uuid_of(change), undo)
    assert noted is not None, "nothing was checked"
    return [(one["key"], one["outcome"], one["value"]) for one in noted.after["settings"]]


@pytest.mark.parametrize("group_id", [None, "orders"])
def test_settings_are_restored_by_key_unless_changed_since(store: Store, group_id: str | None) -> None:
    put = setting_row("put", NOW_MS + 1, group_id)
    store.put_settings(group_id, {"a": "1", "b": "1", "d": "1"}, change_row("first", group_id=group_id))
    store.put_settings(group_id, {"a": "2", "b": "2", "c": "2", "d": None}, put)
    store.put_settings(group_id, {"b": "3"}, setting_row("since", NOW_MS + 2, group_id))
    store.put_settings(group_id, {"b": "2"}, setting_row("back", NOW_MS + 3, group_id))
    before = store.versions()
    assert settings_undone(store, "put") == [
        ("a", "restored", "1"),
        ("b", "newer_there", "2"),
        ("c", "restored", None),
        ("d", "restored", "1"),
    ]
    stored = store.settings()
    assert (stored.cluster if group_id is None else stored.groups[group_id]) == {"a": "1", "b": "2", "d": "1"}
    assert sum(store.versions()) == sum(before) + 1


def test_key_unset_and_set_again_is_kept(store: Store) -> None:
    store.put_settings(None, {"a": "1"}, change_row("first"))
    store.put_settings(None, {"a": None}, change_row("unset", at_ms=NOW_MS + 1))
    store.put_settings(None, {"a": "9"}, change_row("since", at_ms=NOW_MS + 2))
    assert settings_undone(store, "unset") == [("a", "newer_there", "9")]


def test_key_unset_again_is_kept(store: Store) -> None:
    for number, (name, value) in enumerate({"first": "1", "unset": None, "since": "9", "again": None}.items()):
        store.put_settings("orders", {"a": value}, setting_row(name, NOW_MS + number, "orders"))
    assert settings_undone(store, "unset") == [("a", "newer_there", None)]


@pytest.mark.parametrize("group_id", [None, "orders"])
def test_order_of_changes_of_settings_is_not_that_of_the_clocks_of_nodes(store: Store, group_id: str | None) -> None:
    clocks = {"ahead": NOW_MS + 60_000, "behind": NOW_MS, "equal": NOW_MS}
    for value, (name, at_ms) in zip(("1", "2", "1"), clocks.items(), strict=True):
        store.put_settings(group_id, {"a": value}, setting_row(name, at_ms, group_id))
    assert settings_undone(store, "ahead", change_row("one")) == [("a", "newer_there", "1")]
    assert settings_undone(store, "equal", change_row("two")) == [("a", "restored", "2")]
    assert settings_undone(store, "behind", change_row("three")) == [("a", "restored", "1")]


def test_changes_of_a_setting_are_undone_one_after_the_other(store: Store) -> None:
    for number, name in enumerate(("first", "second", "third"), 1):
        store.put_settings("orders", {"a": str(number)}, setting_row(name, NOW_MS + number, "orders"))
    left = []
    for number, name in enumerate(("third", "second", "first"), 10):
        undo = change_row(f"undo {name}", action="undo", group_id="orders", at_ms=NOW_MS + number)
        left += settings_undone(store, name, undo)
    assert left == [("a", "restored", "2"), ("a", "restored", "1"), ("a", "restored", None)]


def test_settings_are_undone_once(store: Store) -> None:
    store.put_settings(None, {"a": "1"}, change_row("put"))
    noted = store.undo_settings(uuid_of("put"), UNDO)
    assert noted is not None, "nothing was checked"
    assert store.undo_settings(uuid_of("put"), UNDO) == noted
    with pytest.raises(NotUndoable, match="already"):
        store.undo_settings(uuid_of("put"), change_row("again"))
    assert store.change(uuid_of("undo")) == RecordedChange(replace(noted), None, None)
