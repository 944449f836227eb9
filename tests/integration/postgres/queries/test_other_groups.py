"""Share and streams groups of a mirrored cluster are replaced shard by shard, and listed."""

from coordinator_core.queries.other_groups import read_other_groups
from coordinator_core.state_store.rows import OtherGroup
from tests.support.store_rows import NOW_MS, SHARD
from tests.support.store_worlds import Owner, Query

JOBS = OtherGroup("jobs", SHARD, "share", "Stable", NOW_MS, 3, 2)
WORDS = OtherGroup("my_words", SHARD, "streams", "Reconciling", NOW_MS, 5, 1)
ELSEWHERE = OtherGroup("words", SHARD + 1, "streams", "Empty", NOW_MS, 1, 0)


def listed(query: Query, prefixes: list[str] | None = None, after: str = "", limit: int = 10) -> list[OtherGroup]:
    return query(read_other_groups, prefixes, after, limit)


def test_groups_of_a_shard_are_replaced(owner: Owner, query: Query) -> None:
    epochs = owner.epochs
    owner.store.store_other_groups(SHARD, epochs[SHARD], [JOBS, WORDS])
    owner.store.store_other_groups(SHARD + 1, epochs[SHARD + 1], [ELSEWHERE])
    assert listed(query) == [JOBS, WORDS, ELSEWHERE]

    changed = JOBS._replace(state="Empty", epoch=4, member_count=0)
    owner.store.store_other_groups(SHARD, epochs[SHARD], [changed])

    assert listed(query) == [changed, ELSEWHERE]


def test_groups_of_a_lost_shard_are_not_stored(owner: Owner, query: Query) -> None:
    owner.store.store_other_groups(SHARD, owner.epochs[SHARD] - 1, [JOBS])

    assert listed(query) == []


def test_page_follows_the_page_before_and_has_groups_of_the_prefixes(owner: Owner, query: Query) -> None:
    owner.store.store_other_groups(SHARD, owner.epochs[SHARD], [JOBS, WORDS, ELSEWHERE])

    assert listed(query, limit=1) == [JOBS]
    assert listed(query, after="jobs", limit=1) == [WORDS]
    assert listed(query, ["w", "my_"]) == [WORDS, ELSEWHERE]
    assert listed(query, ["my%"]) == []
    assert listed(query, []) == []
