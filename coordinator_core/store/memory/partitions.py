"""Which days of history have a partition of their own, and which days' rows have fallen into the default one."""

from collections.abc import Iterable

from coordinator_core.store.memory.groups import History

DAY_MS = 86_400_000
TABLES = (
    "group_transitions",
    "rebalances",
    "rebalance_members",
    "member_sessions",
    "assignments",
    "offset_history",
    "log_end_history",
)


class Partitions:
    """Tables and days, counted from the epoch."""

    def __init__(self) -> None:
        self._present: set[tuple[str, int]] = set()
        self._strays: set[tuple[str, int]] = set()

    def create(self, now_ms: int, days_ahead: int) -> None:
        """Create what is missing. That rows of a day came before stays told."""
        self._present |= {(table, day) for table in TABLES for day in _days(now_ms, days_ahead)}

    def lack(self, now_ms: int) -> bool:
        """Tell whether today or tomorrow has no partition, or a default partition holds rows."""
        wanted = {(table, day) for table in TABLES for day in _days(now_ms, days_ahead=1)}
        return bool(self._strays) or not wanted <= self._present

    def take(self, news: History) -> None:
        """Note where rows fall."""
        rows = {("group_transitions", row.at_ms // DAY_MS) for row in news.transitions}
        rows |= {("rebalances", row.completed_at_ms // DAY_MS) for row in news.rebalances}
        rows |= {("rebalance_members", row.completed_at_ms // DAY_MS) for row in news.rebalance_members}
        rows |= {("member_sessions", row.ended_at_ms // DAY_MS) for row in news.sessions}
        rows |= {("assignments", row.valid_to_ms // DAY_MS) for row in news.ownerships}
        rows |= {("offset_history", row.at_ms // DAY_MS) for row in news.offset_history}
        self._strays |= rows - self._present

    def take_log_ends(self, instants_ms: Iterable[int]) -> None:
        """Note where rows of `log_end_history` fall."""
        self._strays |= {("log_end_history", at_ms // DAY_MS) for at_ms in instants_ms} - self._present


def _days(now_ms: int, days_ahead: int) -> range:
    today = now_ms // DAY_MS
    return range(today, today + days_ahead + 1)
