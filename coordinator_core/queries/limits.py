"""Limits of queries."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """How many queries run at a time, how long, and how much history they read."""

    max_queries: int = 4
    """Concurrent queries."""
    query_timeout_ms: int = 10_000
    """The timeout of one statement."""
    lag_lookback_ms: int = 86_400_000
    """How old log end reports may be from which time lag is computed."""
    max_lag_partitions: int = 20_000
    """The number of committed offsets of a group up to which its lag in time is computed from all of them."""
    max_lag_points: int = 1_000
    """The maximum number of points in one lag history."""
    max_lag_positions: int = 50_000
    """The maximum number of committed offsets that one lag history reads, one per partition and step."""
    tuning_window_days: int = 7
    """How many days of history live advice and what-if read."""
    tuning_max_rows: int = 500_000
    """Session intervals of one group that they read, newest first; and as many rejoins."""
    tuning_max_evictions: int = 1_000
    """Evictions that they evaluate one by one, newest first."""
    tuning_advice_max_age_hours: int = 48
    """The age up to which a report replaces live advice."""
