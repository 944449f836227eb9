"""Contract tests: orders, filters, counts and pages of the overview."""

import pytest

from coordinator_core.queries.group_patterns import GroupPatterns
from coordinator_core.queries.overview import (
    GroupOrder,
    GroupSummary,
    Overview,
    OverviewCursor,
    OverviewFilter,
    read_overview,
)
from coordinator_core.queries.runs import read_candidates, read_days
from coordinator_core.state_store.interface import RunNotFound
from tests.support.store_rows import (
    NOW_MS,
    candidate,
    committed,
    group_row,
    outcome,
    rebalance_row,
    retirement,
    run_row,
    uuid_of,
    write,
)
from tests.support.store_worlds import NODE, Owner, Query, World

HOUR_MS = 3_600_000
LAG_MAX = 2**63 - 1


def look(query: Query, **which: object) -> Overview:
    return query(read_overview, OverviewFilter(**which))  # type: ignore[arg-type]  # each test gives what fits


def ids(query: Query, **which: object) -> list[str]:
    return [one.group_id for one in look(query, **which).groups]


@pytest.fixture
def five(owner: Owner, world: World) -> None:
    """Give a healthy group, one that waits, one that flaps, one that is empty and one that is gone."""
    now_ms = world.today_ms()
    storm = tuple(
        rebalance_row(f"storm-{number}", "flapping", completed_at_ms=now_ms - number, trigger="session_expired")
        for number in range(3)
    )
    long_ago = rebalance_row("old", "healthy", completed_at_ms=now_ms - 2 * HOUR_MS)
    waits = {"state": "PreparingRebalance", "rebalance_started_at_ms": NOW_MS + 5, "rebalance_trigger": "member_left"}
    owner.write(
        write("healthy", group=group_row("healthy", member_count=2), rebalances=(long_ago,)),
        write("Waiting", group=group_row("Waiting", **waits)),
        write("flapping", group=group_row("flapping", state_since_ms=NOW_MS + 9), rebalances=storm),
        write("empty", group=group_row("empty", state="Empty", member_count=0, state_since_ms=NOW_MS - 1)),
        write("gone", is_group_deleted=True),
    )
    owner.write(
        write("flapping", committed=(committed(offset=3, log_end_offset=9), committed(partition=1, offset=5))),
        write("healthy", committed=(committed(offset=7, log_end_offset=7),)),
    )


def test_unhealthy_groups_are_listed_first(five: None, query: Query) -> None:
    assert ids(query) == ["Waiting", "flapping", "healthy", "empty"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (GroupOrder.GROUP_ID, ["Waiting", "empty", "flapping", "healthy"]),
        (GroupOrder.SINCE, ["empty", "Waiting", "healthy", "flapping"]),
        (GroupOrder.MEMBERS, ["healthy", "Waiting", "flapping", "empty"]),
        (GroupOrder.LAG, ["flapping", "healthy", "Waiting", "empty"]),
        (GroupOrder.REBALANCES, ["flapping", "Waiting", "empty", "healthy"]),
    ],
)
def test_each_order_has_its_own_first(five: None, order: GroupOrder, expected: list[str], query: Query) -> None:
    assert ids(query, order=order) == expected


def test_summary_includes_known_values(five: None, world: World, query: Query) -> None:
    waiting, flapping, healthy, empty = look(query).groups

    assert flapping == GroupSummary(
        key=-31,
        group_id="flapping",
        state="Stable",
        state_since_ms=NOW_MS + 9,
        generation=1,
        protocol_type="consumer",
        member_count=1,
        node_id=NODE,
        rebalance_started_at_ms=None,
        rebalance_trigger=None,
        rebalances_last_hour=3,
        lag=6,
        is_lag_lower_bound=False,
        log_end_at_ms=NOW_MS,
        last_rebalance_trigger="session_expired",
        last_rebalance_at_ms=flapping.last_rebalance_at_ms,
    )
    assert (waiting.rebalance_started_at_ms, waiting.rebalance_trigger) == (NOW_MS + 5, "member_left")
    assert (healthy.rebalances_last_hour, healthy.lag, healthy.last_rebalance_trigger) == (0, 0, "member_joined")
    assert (empty.lag, empty.last_rebalance_trigger, empty.last_rebalance_at_ms) == (None, None, None)


def test_rebalances_of_a_former_group_of_that_name_do_not_count(owner: Owner, query: Query, world: World) -> None:
    former = rebalance_row(completed_at_ms=world.today_ms(), group_created_at_ms=NOW_MS - 1)
    owner.write(write(group=group_row(), rebalances=(former,)))
    (found,) = look(query).groups
    assert (found.last_rebalance_trigger, found.last_rebalance_at_ms) == (None, None)
    assert (found.rebalances_last_hour, found.key) == (0, -1)


def test_lag_without_log_end_is_unknown_and_sorts_last(owner: Owner, query: Query) -> None:
    owner.write(write("silent", group=group_row("silent")), write("read", group=group_row("read")))
    owner.write(
        write("silent", committed=(committed(offset=5),)),
        write("read", committed=(committed(offset=7, log_end_offset=7),)),
    )
    found = look(query, order=GroupOrder.LAG).groups
    assert [(one.group_id, one.lag) for one in found] == [("read", 0), ("silent", None)]


@pytest.mark.parametrize("order", GroupOrder)
def test_lag_beyond_int64_is_capped_in_lists(owner: Owner, order: GroupOrder, query: Query) -> None:
    owner.write(write("behind", group=group_row("behind")), write("usual", group=group_row("usual")))
    ends = tuple(committed(partition=each, offset=0, log_end_offset=LAG_MAX) for each in (0, 1))
    owner.write(
        write("behind", committed=ends),
        write("usual", committed=(committed(offset=0, log_end_offset=9),)),
    )
    found = look(query, order=order)
    assert {one.group_id: one.lag for one in found.groups} == {"behind": LAG_MAX, "usual": 9}
    assert found.groups[0].group_id == "behind"


@pytest.mark.parametrize("order", GroupOrder)
def test_pages_join_without_gap_or_repeat(five: None, order: GroupOrder, query: Query) -> None:
    whole = ids(query, order=order)
    pages: list[str] = []
    after: OverviewCursor | None = None
    while page := look(query, order=order, after=after, limit=1).groups:
        pages.append(page[0].group_id)
        after = OverviewCursor(page[0].key, page[0].group_id)
    assert pages == whole


@pytest.mark.parametrize(("text", "found"), [("P", ["flapping", "empty"]), ("wait", ["Waiting"]), ("%", [])])
def test_a_text_is_found_anywhere_in_an_id_in_either_case(
    five: None, text: str, found: list[str], query: Query
) -> None:
    assert ids(query, text=text) == found


def test_non_ascii_letters_are_compared_exactly(owner: Owner, query: Query) -> None:
    owner.write(write("Ärger", group=group_row("Ärger")), write("ärger", group=group_row("ärger")))
    assert ids(query, text="Är") == ["Ärger"]
    assert ids(query, text="äRG") == ["ärger"]


def test_states_narrow_the_page_and_not_the_counts(five: None, query: Query) -> None:
    found = look(query, states=frozenset({"Empty", "Stable"}), limit=1)
    assert [one.group_id for one in found.groups] == ["flapping"]
    assert found.counts == {"PreparingRebalance": 1, "Stable": 2, "Empty": 1}


def test_counts_stand_even_if_the_page_is_empty(five: None, query: Query) -> None:
    found = look(query, states=frozenset({"CompletingRebalance"}))
    assert (found.groups, sum(found.counts.values())) == ([], 4)
    assert look(query, text="nothing of the kind") == Overview({}, [])


def test_patterns_narrow_everything(five: None, query: Query) -> None:
    found = look(query, patterns=GroupPatterns(("fl%", "he%")))
    assert [one.group_id for one in found.groups] == ["flapping", "healthy"]
    assert found.counts == {"Stable": 2}
    assert ids(query, patterns=GroupPatterns(())) == []


# -- candidates -------------------------------------------------------------------------------------------


def places(query: Query, run: str = "run", limit: int = 10) -> list[tuple[str, str, int]]:
    """Return all candidates of a run, read in pages."""
    found: list[tuple[str, str, int]] = []
    page = query(read_candidates, uuid_of(run), None, limit)
    while page:
        found += [one.cursor for one in page]
        page = query(read_candidates, uuid_of(run), page[-1].cursor, limit)
    return found


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_candidates_come_by_group_topic_and_partition(world: World, limit: int, query: Query) -> None:
    world.propose(run_row(), [candidate(10), candidate(9), candidate(1, "Orders"), retirement("a"), retirement("z")])
    assert places(query, limit=limit) == [
        ("Orders", "clicks", 1),
        ("a", "", -1),
        ("orders", "clicks", 9),
        ("orders", "clicks", 10),
        ("z", "", -1),
    ]


def test_candidate_reports_its_outcome(world: World, owner: Owner, query: Query) -> None:
    world.propose(run_row(status="applying"), [candidate(0), candidate(1)])
    owner.write(write(outcomes=(outcome(1, "not_due"),)))
    assert [one.outcome for one in query(read_candidates, uuid_of("run"), None, 9)] == [None, "not_due"]


def test_group_candidate_reports_what_was_seen(world: World, query: Query) -> None:
    world.propose(run_row(), [retirement()])
    (one,) = query(read_candidates, uuid_of("run"), None, 9)
    assert (one.generation, one.state_since_ms, one.committed_at_ms) == (3, NOW_MS, None)


def test_unknown_run_has_no_candidates(query: Query) -> None:
    with pytest.raises(RunNotFound):
        query(read_candidates, uuid_of("nothing"), None, 1)
    with pytest.raises(RunNotFound):
        query(read_days, uuid_of("nothing"))


def test_a_run_about_offsets_names_no_day_of_history(world: World, query: Query) -> None:
    world.propose(run_row(), [candidate(1)])
    assert query(read_days, uuid_of("run")) == []
