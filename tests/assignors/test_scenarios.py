"""Every `assign` step of the scenario file gives what Kafka's assignors give."""

from typing import Any

import pytest

from coordinator_core.protocol.assignors import NO_GENERATION, MemberSubscription, TopicPartition, assign
from tests.assignors.groups import readable, sizes
from tests.conformance.scenarios import load_scenarios

Json = Any


STEPS = {
    f"{scenario.scenario_id} {step['id']}": step
    for scenario in load_scenarios()
    for step in scenario.steps
    if step["op"] == "assign"
}


def subscriptions(args: Json) -> list[MemberSubscription]:
    """Return the members of a step; who they are and what they own stands in three maps."""
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


@pytest.mark.parametrize("name", STEPS)
def test_the_scenario_file_is_followed(name: str) -> None:
    args, expect = STEPS[name]["args"], STEPS[name]["expect"]
    members = subscriptions(args)
    assignment = assign(args["assignor"], args["topics"], members)
    given_out = sorted(each for share in assignment.values() for each in share)
    seen: dict[str, Json] = {
        "assignment": {member_id: [list(each) for each in share] for member_id, share in assignment.items()},
        "counts": sizes(assignment),
        "complete": given_out == readable(args["topics"], members),
        "keeps": {
            member_id: [each for each in owned if TopicPartition(*each) in assignment[member_id]]
            for member_id, owned in expect.get("keeps", {}).items()
        },
    }

    assert {field: seen[field] for field in expect} == expect


def test_there_are_scenarios_to_follow() -> None:
    followed = [step["args"]["assignor"] for step in STEPS.values()]

    assert len(followed) == 14
    assert set(followed) == {"range", "roundrobin", "sticky", "cooperative-sticky"}
