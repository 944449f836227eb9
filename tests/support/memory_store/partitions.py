"""Daily partitions in memory: the days with a partition, and the days with rows in the default partition."""

from collections.abc import Iterable

from tests.support.memory_store.groups import History

DAY_MS = 86_400_000
TABLES = (
    "group_transitions",
    "rebalances",
    "rebalance_members",
    "member_sessions",
    "partition_ownership",
    "offset_history",
    "log_end_history",
)


class Partitions:
    """Tables and days, counted from the epoch."""

    def __init__(self) -> None:
        self._present: set[tuple[str, int]] = set()
        self._late_rows: set[tuple[str, int]] = set()

    def create(self, now_ms: int, days_ahead: int) -> None:
        """Create missing partitions; earlier rows of their days still count as late."""
        self._present |= {(table, day) for table in TABLES for day in _days(now_ms, days_ahead)}

    def are_missing(self, now_ms: int) -> bool:
        """Return whether the partition of today or tomorrow is missing, or a default partition has rows."""
        wanted = {(table, day) for table in TABLES for day in _days(now_ms, days_ahead=1)}
        return bool(self._late_rows) or not wanted <= self._present

    def take(self, news: History) -> None:
        """Record rows without a partition."""
        rows = {("group_transitions", row.at_ms // DAY_MS) for row in news.transitions}
        rows |= {("rebalances", row.completed_at_ms // DAY_MS) for row in news.rebalances}
        rows |= {("rebalance_members", row.completed_at_ms // DAY_MS) for row in news.rebalance_members}
        rows |= {("member_sessions", row.ended_at_ms // DAY_MS) for row in news.sessions}
        rows |= {("partition_ownership", row.valid_to_ms // DAY_MS) for row in news.ownerships}
        rows |= {("offset_history", row.at_ms // DAY_MS) for row in news.offset_history}
        self._late_rows |= rows - self._present

    def take_log_ends(self, instants_ms: Iterable[int]) -> None:
        """Record rows of `log_end_history` without a partition."""
        self._late_rows |= {("log_end_history", at_ms // DAY_MS) for at_ms in instants_ms} - self._present


def _days(now_ms: int, days_ahead: int) -> range:
    today = now_ms // DAY_MS
    return range(today, today + days_ahead + 1)
