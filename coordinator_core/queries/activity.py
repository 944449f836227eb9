"""The activity of all groups by hour: rebalances and evictions of a day, and the offsets that expire next."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_core.queries.group_patterns import COVERED_GROUPS, GroupPatterns, pattern_parameters
from coordinator_core.state_store.postgres.connections import Transaction

HOURS: Final = 24
"""The hours of an activity; the last one is the present hour."""


class HourlyActivity(NamedTuple):
    """What happened within an hour (UTC)."""

    hour_ms: int
    """Its start, in wall time."""
    rebalances: int
    """Rebalances that ended."""
    evictions: int
    """Members that a timeout removed."""


class ExpiryForecast(NamedTuple):
    """Offsets that expire if their groups stay as they are, by the newest run of `offset_retention`."""

    as_of_ms: int
    within_a_day: int
    within_a_week: int
    next_expiry_at_ms: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of the groups that a filter selects."""

    hours: tuple[HourlyActivity, ...]
    """HOURS of them, the oldest first."""
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
        AND end_reason IN ('session_expired', 'rebalance_timeout', 'sync_timeout') AND {COVERED_GROUPS}
    GROUP BY 1
)
SELECT floor(extract(epoch FROM hour) * 1000)::bigint, coalesce(ended.number, 0), coalesce(evicted.number, 0)
FROM hours LEFT JOIN ended USING (hour) LEFT JOIN evicted USING (hour)
ORDER BY hour
"""  # noqa: S608 - all of it is written here

_FORECAST: Final = f"""
SELECT floor(extract(epoch FROM max(as_of)) * 1000)::bigint, sum(within_a_day)::bigint, sum(within_a_week)::bigint,
    floor(extract(epoch FROM min(next_expiry_at)) * 1000)::bigint
FROM dashboards.offsets_expiring
WHERE {COVERED_GROUPS}
HAVING count(*) > 0
"""  # noqa: S608 - likewise


def read_activity(transaction: Transaction, patterns: GroupPatterns | None) -> Activity:
    """Return the activity of the groups with these patterns; None: of all groups."""
    own = pattern_parameters(patterns)
    hours = tuple(HourlyActivity(*row) for row in transaction.execute(_HOURS, own))
    forecast = transaction.execute(_FORECAST, own).one_or_none()
    return Activity(hours, None if forecast is None else ExpiryForecast(*forecast))
