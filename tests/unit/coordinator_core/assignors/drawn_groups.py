"""Random groups for property tests: few topics and members, so that they overlap, and claims of every kind."""

from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from coordinator_core.assignors import MemberSubscription, TopicPartition

TOPICS = ("s", "t", "u", "v")
MISSING = "missing"
"""A topic that is subscribed to and not there."""

GENERATIONS = (3, 4, 5)
INSTANCE_IDS = ("w", "x", "y", "z")


@dataclass(frozen=True, slots=True)
class Group:
    """What an assignor is given."""

    topics: dict[str, int]
    members: tuple[MemberSubscription, ...]


@st.composite
def groups(
    draw: st.DrawFn, *, is_uniform: bool | None = None, most_members: int = 6, most_partitions: int = 7
) -> Group:
    """Draw a group; `is_uniform` says whether all subscribe alike, None leaves it open.

    Its shape is drawn one by one, so that a failing group is made small; who claims what comes from one seed, and is
    of every kind: without claimant, of one member, contested, of any generation, of what is gone or not subscribed to.
    """
    topics = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, most_partitions), min_size=1))
    member_ids = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=most_members, unique=True))
    alike = draw(st.booleans()) if is_uniform is None else is_uniform
    some = st.lists(st.sampled_from([*topics, MISSING]), min_size=1, unique=True).map(tuple)
    subscriptions = [draw(some)] * len(member_ids) if alike else [draw(some) for _ in member_ids]
    return Group(topics, _members(member_ids, subscriptions, topics, Random(draw(st.integers(0, 2**20)))))


def _members(
    member_ids: list[str], subscriptions: list[tuple[str, ...]], topics: dict[str, int], chance: Random
) -> tuple[MemberSubscription, ...]:
    instance_ids = chance.sample(INSTANCE_IDS, chance.choice([0, 0, 2, 4]))
    instances = dict(zip(chance.sample(member_ids, len(member_ids)), instance_ids, strict=False))
    generations = chance.choice([GENERATIONS[:1], GENERATIONS])
    claims = _claims(member_ids, topics, chance)
    return tuple(
        MemberSubscription(
            member_id, instances.get(member_id), subscribed, tuple(claims[member_id]), chance.choice(generations)
        )
        for member_id, subscribed in zip(member_ids, subscriptions, strict=True)
    )


def _claims(member_ids: list[str], topics: dict[str, int], chance: Random) -> dict[str, list[TopicPartition]]:
    claims: dict[str, list[TopicPartition]] = {member_id: [] for member_id in member_ids}
    claimants = member_ids[: chance.randint(1, len(member_ids))]
    how_many = chance.choice([[0], [1], [0, 1], [0, 1, 1, 1, 2, 3]])
    for topic, count in topics.items():
        for number in range(count + 1):
            for member_id in chance.sample(claimants, min(chance.choice(how_many), len(claimants))):
                claims[member_id].append(TopicPartition(topic, number))
    return claims
