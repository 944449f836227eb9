"""Property test: the same writes leave the same rows in Postgres and in memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.postgres import PostgresStore
from coordinator_core.state_store.rows import GroupWrite
from muster.settings import psql_url
from tests.support.memory_store.groups import History
from tests.support.store_rows import (
    MINUTE_MS,
    NOW_MS,
    SHARD,
    change_row,
    committed,
    group_row,
    member_row,
    removed,
    transition_row,
    write,
)
from tests.support.store_worlds import MS_FUNCTION, MemoryWorld, Owner, PostgresWorld, World


@dataclass(frozen=True)
class Step:
    """One write, in small numbers."""

    group: str
    is_gone: bool
    generation: int | None
    members: dict[str, int | None]
    commits: list[tuple[int, int, int]]
    """Partition, offset, and minutes from now."""
    removals: list[tuple[int, bool]]
    """Partition, and whether the decision saw its current commit version."""
    has_died: bool
    is_by_operator: bool
    is_bad: bool


STEPS = st.builds(
    Step,
    group=st.sampled_from(("a", "b")),
    is_gone=st.booleans(),
    generation=st.none() | st.integers(0, 9),
    members=st.dictionaries(st.sampled_from(("m-1", "m-2")), st.none() | st.integers(0, 3), max_size=2),
    commits=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99), st.integers(-1, 3)), max_size=3),
    removals=st.lists(st.tuples(st.integers(0, 1), st.booleans()), max_size=2),
    has_died=st.booleans(),
    is_by_operator=st.booleans(),
    is_bad=st.integers(0, 9).map(lambda roll: roll == 0),
)
BATCHES = st.lists(st.lists(STEPS, min_size=1, max_size=5), min_size=1, max_size=4)


@pytest.fixture
def twins(database_url: str, postgres_store: PostgresStore, queries: Queries) -> Iterator[tuple[World, World]]:
    connection = psycopg2.connect(psql_url(database_url))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(MS_FUNCTION)
    yield PostgresWorld(postgres_store, connection, queries), MemoryWorld()
    connection.close()


EXAMPLES = count()


@given(batches=BATCHES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_stores_end_up_the_same(twins: tuple[World, World], batches: list[list[Step]]) -> None:
    life = f"life-{next(EXAMPLES)}-"
    postgres, memory = (play(world, life, batches) for world in twins)
    assert postgres == memory


def play(world: World, life: str, batches: list[list[Step]]) -> object:
    """Write the batches, and return everything that can be seen of them."""
    owner = Owner(world.store)
    refusals = []
    for number, steps in enumerate(batches):
        groups = Counter(step.group for step in steps)
        writes = [
            translate(world.store, life, step, f"{life}{number}-{place}", is_locked=groups[step.group] == 1)
            for place, step in enumerate(steps)
        ]
        refusals.append(set(owner.write(*writes).refused_groups))
    return refusals, seen(world.store, life), reported(world.history(), life)


def translate(store: Store, life: str, step: Step, name: str, *, is_locked: bool) -> GroupWrite:
    """Return a write; one that removes offsets, or has a change, is the only one of its group in a batch."""
    group_id = life + step.group
    versions = {row.partition: row for row in store.stored_offsets(group_id)}
    removals = [
        removed(offset if is_seen else offset._replace(commit_version=-1), f"{name} {number}")
        for number, (partition, is_seen) in enumerate(step.removals if is_locked else ())
        if (offset := versions.get(partition))
    ]
    return write(
        group_id,
        is_group_deleted=step.is_gone,
        group=None if step.generation is None else group_row(group_id, generation=step.generation),
        members={
            member_id: None if position is None else member_row(member_id, group_id, join_order=position)
            for member_id, position in step.members.items()
        },
        committed=tuple(
            committed(partition=partition, offset=offset, at_ms=NOW_MS + minutes * MINUTE_MS)
            for partition, offset, minutes in step.commits
        ),
        removed=tuple(removals),
        transitions=(
            transition_row(group_id, to_state="Dead" if step.has_died else "Empty", reason="\0" * step.is_bad),
        ),
        changes=(change_row(name),) if is_locked and step.is_by_operator else (),
    )


def seen(store: Store, life: str) -> object:
    groups = [stored for stored in store.load_shards([SHARD]) if stored.group_id.startswith(life)]
    offsets = [store.fetch_offsets(life + group) for group in "ab"]
    return groups, offsets


def reported(history: History, life: str) -> object:
    return [
        sorted(repr(row) for row in rows if row.group_id.startswith(life))
        for rows in (history.transitions, history.offset_history, history.archived)
    ]
