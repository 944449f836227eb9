"""The step `assign`: calls an assignor without a coordinator and compares its result."""

from typing import Any

from coordinator_core.assignors import NO_GENERATION, Assignment, MemberSubscription, TopicPartition, assign

Json = Any


def assigned(args: Json, expect: Json) -> Json:
    """Call the assignor, and return what the step compares.

    Args:
        args: `assignor`, `topics` (name to count), `subscriptions` (member to topics), `owned` and `instances`.
        expect: what `keeps` names is what a member is asked to have kept.
    """
    assignment = assign(args["assignor"], args["topics"], _members(args))
    return {
        "assignment": {member_id: [list(each) for each in share] for member_id, share in assignment.items()},
        "counts": {member_id: len(share) for member_id, share in assignment.items()},
        "complete": sorted(each for share in assignment.values() for each in share) == _readable(args),
        "keeps": _kept(assignment, expect.get("keeps", {})),
    }


def _members(args: Json) -> list[MemberSubscription]:
    return [
        MemberSubscription(
            member_id,
            args.get("instances", {}).get(member_id),
            tuple(topics),
            tuple(TopicPartition(*each) for each in args.get("owned", {}).get(member_id, [])),
            NO_GENERATION,
        )
        for member_id, topics in args["subscriptions"].items()
    ]


def _readable(args: Json) -> list[TopicPartition]:
    """Return every partition that has a subscriber."""
    wanted = {topic for topics in args["subscriptions"].values() for topic in topics}
    return sorted(TopicPartition(topic, number) for topic in wanted for number in range(args["topics"].get(topic, 0)))


def _kept(assignment: Assignment, wanted: Json) -> Json:
    return {
        member_id: [each for each in owned if TopicPartition(*each) in assignment[member_id]]
        for member_id, owned in wanted.items()
    }
