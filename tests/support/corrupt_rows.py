"""Rows of a group that no node can load, written past the CHECK constraints."""

from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.protocol.hashing import shard_of
from tests.support.http_client import Client, Group, Json, position

SICK, WELL = "sick", next(f"w{n}" for n in range(10_000) if shard_of(f"w{n}", 50) == shard_of("sick", 50))
QUICK = {"group_initial_rebalance_delay_ms": 0}

BREAKS = {
    "groups_shard_id": "UPDATE groups SET shard_id = -1",
    "groups_state": "UPDATE groups SET state = 'stable'",
    "groups_state_before_join_phase": "UPDATE groups SET state_before_join_phase = 'settled'",
    "groups_counts": "UPDATE groups SET generation = -1",
    "groups_times": "UPDATE groups SET state_since = 'infinity'",
    "groups_subscribed_topics": "UPDATE groups SET subscribed_topics = ARRAY['orders', NULL]",
    "groups_rebalance_trigger": "UPDATE groups SET rebalance_trigger = 'because'",
    "groups_rebalance": """UPDATE groups SET rebalance = '"under way"'""",
    "members_shard_id": "UPDATE members SET shard_id = -1",
    "members_timeouts": "UPDATE members SET session_timeout_ms = 0",
    "members_join_order": "UPDATE members SET join_order = -1",
    "members_joined_at": "UPDATE members SET joined_at = '-infinity'",
    "members_protocols": "UPDATE members SET protocol_metadata = '{}'",
    "members_ownership": "UPDATE members SET ownership = '{}'",
}
"""Constraint of `groups` and `members` → what violates it."""


def settle(group: Group) -> None:
    member = group.stable(session_timeout_ms=600_000, rebalance_timeout_ms=600_000)
    body = {"member_id": member.member_id, "generation": member.generation, "offsets": [position(41)]}
    group.client.ok("POST", f"{group.path}/offsets", body)


def spoil(rows: PsycopgConnection, statement: str, *constraints: str) -> None:
    """Change the group's rows without the constraints, which are restored as NOT VALID."""
    with rows.cursor() as cursor:
        for name in constraints:
            table = name.partition("_")[0]
            cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", (name,))
            ((definition,),) = cursor.fetchall()
            cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
            cursor.execute(f"{statement} WHERE group_id = 'sick'")
            cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition} NOT VALID")
        if not constraints:
            cursor.execute(f"{statement} WHERE group_id = 'sick'")


def eventually_quarantined(client: Client) -> Json:
    """Return the refusal of a heartbeat, once the group's shard is loaded."""
    beat = {"member_id": "m", "generation": 1}
    while "quarantined" not in (refused := client.call("POST", f"/v1/groups/{SICK}/heartbeat", beat)).body.decode():
        assert refused.status in {200, 503}
    problem: Json = refused.json
    return problem
