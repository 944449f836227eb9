"""A new user's first consumer, through the load balancer, while a consumer and then a node are killed."""

from pathlib import Path

import pytest

from tests.support.http_client import Client
from tests.support.waiting import poll_until
from tests.system.containers.platform import PROJECT, Platform
from tests.system.containers.readers import PARTITIONS, Readers

pytestmark = pytest.mark.containers

GROUP = "readers"
REBALANCES = "SELECT count(*) FROM rebalances WHERE group_id = 'readers'"
OWNER = "SELECT node_id FROM shard_leases JOIN groups USING (shard_id) WHERE group_id = 'readers'"


def test_consumers_share_partitions_and_lose_no_offset_when_one_and_then_a_node_is_killed(
    platform: Platform, load_balancer: Client, operator: dict[str, str], tmp_path: Path
) -> None:
    readers = Readers(platform, tmp_path)

    def committed() -> dict[int, int]:
        answer = load_balancer.send("GET", f"/v1/groups/{GROUP}/offsets", headers=operator)
        return {each["partition"]: each["offset"] for each in answer.json.get("offsets", [])}

    readers.write("first")
    first = readers.start()
    poll_until(lambda: committed() == dict.fromkeys(PARTITIONS, 1))
    second = readers.start()
    poll_until(lambda: "assigned: " in "".join(readers.printed(second)))

    readers.kill(first)
    readers.write("second")
    poll_until(lambda: committed() == dict.fromkeys(PARTITIONS, 2))
    poll_until(lambda: readers.lines_read(second, "second") > 0)
    assert readers.lines_read(second, "first") == 0, "it reads what was committed before it joined"

    rebalances = platform.sql(REBALANCES)
    ((owner,),) = platform.sql(OWNER)
    killed = owner.split(":")[0]
    platform.podman("kill", "--signal=KILL", f"{PROJECT}-{killed}-1")
    readers.write("third")
    poll_until(lambda: committed() == dict.fromkeys(PARTITIONS, 3))
    assert platform.sql(OWNER) != [[owner]]
    assert platform.sql(REBALANCES) == rebalances, "the group rebalanced when its node was killed"

    readers.remove()
    platform.podman("start", f"{PROJECT}-{killed}-1")
    platform.wait_until_healthy(killed)
