"""The activity of all groups: rebalances and evictions of a day by hour, flapping groups, offsets that expire next."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.queries.overview import RECENT_MS
from coordinator_core.state_store.postgres.connections import Transaction

HOURS: Final = 24
"""The hours of an activity; the last one is the present hour."""
FLAPPING_REBALANCES: Final = 10
"""So many rebalances within the last hour make a Stable group a flapping one, for the console and commands, too."""
EXPIRING_GROUPS_MAX: Final = 5
"""The groups that a forecast names."""


class HourlyActivity(NamedTuple):
    """What happened within an hour (UTC)."""

    hour_ms: int
    """Its start, in wall time."""
    rebalances: int
    """Rebalances that ended."""
    evictions: int
    """Members that a timeout removed."""


class ExpiringGroup(NamedTuple):
    """A group that loses offsets within a week if it stays as it is."""

    group_id: str
    within_a_day: int
    within_a_week: int
    next_expiry_at_ms: int


class ExpiryForecast(NamedTuple):
    """Offsets that expire if their groups stay as they are, by the newest run of `offset_retention`."""

    as_of_ms: int
    within_a_day: int
    within_a_week: int
    next_expiry_at_ms: int
    groups: tuple[ExpiringGroup, ...] = ()
    """Those that lose offsets first, at most EXPIRING_GROUPS_MAX."""


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of the groups that a filter selects."""

    hours: tuple[HourlyActivity, ...]
    """HOURS of them, the oldest first."""
    flapping_groups: int
    """Stable groups with at least FLAPPING_REBALANCES rebalances within the last hour."""
    forecast: ExpiryForecast | None
    """None: there is no forecast, or no offset expires within a week."""


_HOURS: Final = f"""
WITH hours AS (
    SELECT date_trunc('hour', clock_timestamp(), 'UTC') - ago * interval '1 hour' AS hour
    FROM generate_series(0, {HOURS - 1}) AS ago
), ended AS (
    SELECT date_trunc('hour', completed_at, 'UTC') AS hour, count(*) AS number FROM rebalances
    WHERE completed_at >= (SELECT min(hour) FROM hours) AND {COVERED_GROUPS}
    GROUP BY 1
), evicted AS (
    SELECT date_trunc('hour', ended_at, 'UTC') AS hour, count(*) AS number FROM member_sessions
    WHERE ended_at >= (SELECT min(hour) FROM hours)
        AND end_reason IN ('session_expired', 'new_member_timeout', 'rebalance_timeout', 'sync_timeout')
        AND {COVERED_GROUPS}
    GROUP BY 1
)
SELECT floor(extract(epoch FROM hour) * 1000)::bigint, coalesce(ended.number, 0), coalesce(evicted.number, 0)
FROM hours LEFT JOIN ended USING (hour) LEFT JOIN evicted USING (hour)
ORDER BY hour
"""  # noqa: S608 - all of it is written here

_FLAPPING: Final = f"""
SELECT count(*) FROM groups JOIN (
    SELECT group_id, group_created_at AS created_at FROM rebalances
    WHERE completed_at > now() - {RECENT_MS} * interval '1 ms'
    GROUP BY 1, 2 HAVING count(*) >= {FLAPPING_REBALANCES}
) AS recent USING (group_id, created_at)
WHERE state = 'Stable' AND {COVERED_GROUPS}
"""  # noqa: S608 - likewise

# One statement, so that the sums and the groups are of one run.
_FORECAST: Final = f"""
SELECT floor(extract(epoch FROM max(as_of) OVER ()) * 1000)::bigint, (sum(within_a_day) OVER ())::bigint,
    (sum(within_a_week) OVER ())::bigint, floor(extract(epoch FROM min(next_expiry_at) OVER ()) * 1000)::bigint,
    group_id, within_a_day, within_a_week, floor(extract(epoch FROM next_expiry_at) * 1000)::bigint
FROM dashboards.offsets_expiring
WHERE {COVERED_GROUPS}
ORDER BY next_expiry_at, group_id LIMIT {EXPIRING_GROUPS_MAX}
"""  # noqa: S608 - likewise


def read_activity(transaction: Transaction, patterns: GroupPatterns | None) -> Activity:
    """Return the activity of the groups with these patterns; None: of all groups."""
    own = pattern_parameters(patterns)
    hours = tuple(HourlyActivity(*row) for row in transaction.execute(_HOURS, own))
    ((flapping_groups,),) = transaction.execute(_FLAPPING, own)
    expiring = transaction.execute(_FORECAST, own).all()
    if not expiring:
        return Activity(hours, flapping_groups, None)
    groups = tuple(ExpiringGroup(*row[4:]) for row in expiring)
    return Activity(hours, flapping_groups, ExpiryForecast(*expiring[0][:4])._replace(groups=groups))
