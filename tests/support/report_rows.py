"""Rows of reports, as jobs write them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.store_rows import SHARD, uuid_of

DAY = datetime(2026, 11, 20, tzinfo=UTC)

SPREAD = {
    **dict.fromkeys(("members", "idle_members", "partitions", "unassigned", "partitions_max", "score"), 3),
    **dict.fromkeys(("best_partitions_max", "misplaced", "moved", "moves_needed"), 2),
    "partitions_mean": 1.5,
    "lag_max": None,
    "lag_mean": 0.25,
    "has_better": True,
}

AUDIT = {**SPREAD, "generation": 4, "topics": 1, "score_before": None, "trend": "first"}

FREQUENCY = {
    **dict.fromkeys(
        ("rebalances", "completed", "emptied", "abandoned", "restarts", "churn_periods", "churn_rebalances"), 1
    ),
    **dict.fromkeys(("took_p50_ms", "took_p95_ms", "took_max_ms", "took_total_ms", "rebalancing_ms"), 7),
    **dict.fromkeys(("existed_ms", "waited_for_client_host", "waited_for_members")),
    **dict.fromkeys(("waited_for_member_id", "waited_for_instance_id", "waited_for_client_id", "waited_for_ms")),
    "by_trigger": {"admin": 1},
    "rebalancing_share": 0.5,
    "evicted": 2,
    "spuriously_evicted": 1,
    "rebalancing_since": DAY,
    "is_churning": False,
}


def report(group_id: str, day: int = 0, of: dict[str, Any] = AUDIT, **columns: object) -> dict[str, Any]:
    start = DAY + timedelta(days=day)
    key = {"interval_start": start, "interval_end": start + timedelta(days=1), "group_id": group_id, "shard_id": SHARD}
    return {**key, "run_id": uuid_of("run"), "as_of": start, **of, **columns}
