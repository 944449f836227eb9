"""Results equal those of Kafka's own assignors for 200 random groups.

The file has only results that depend on no hash order, and none of the cases where Kafka breaks a rule of its own (it
can give a former holder what it no longer subscribes to).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.coordinator_core.assignors.groups import drawn, member

Json = Any

CASES: list[Json] = json.loads(Path(__file__).with_name("kafka_results.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['assignor']}-{number}" for number, case in enumerate(CASES)])
def test_the_result_is_kafka_s(case: Json) -> None:
    members = [member(member_id, **side) for member_id, side in case["members"].items()]

    assert drawn(case["assignor"], case["topics"], *members) == case["assignment"]


def test_all_four_assignors_are_compared() -> None:
    assert {case["assignor"] for case in CASES} == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert len(CASES) == 200
