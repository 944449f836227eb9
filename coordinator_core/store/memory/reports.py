"""Reports in memory: stores all rows, and returns the newest of each group."""

from collections.abc import Iterable

from coordinator_core.store.reports import REPORT_PARTS, Report, ReportFilter, ReportKind, with_parts


class Reports:
    """The rows of every kind of report, and of their parts."""

    def __init__(self) -> None:
        self._rows: dict[ReportKind, list[Report]] = {kind: [] for kind in ReportKind}
        self._parts: dict[ReportKind, list[Report]] = {kind: [] for kind in ReportKind}

    def add(self, kind: ReportKind, rows: Iterable[Report], parts: Iterable[Report] = ()) -> None:
        """Store the rows of a job."""
        self._rows[kind] += rows
        self._parts[kind] += parts

    def newest(self, which: ReportFilter) -> list[Report]:
        """Return the newest report of each group, by group."""
        newest: dict[str, Report] = {}
        for row in sorted(self._rows[which.kind], key=lambda row: (row["interval_end"], row["interval_start"])):
            newest[row["group_id"]] = row
        wanted = [newest[group_id] for group_id in sorted(newest, key=str.encode) if _is_asked_for(group_id, which)]
        page = wanted[: which.limit]
        if which.kind not in REPORT_PARTS:
            return page
        return with_parts(page, sorted(self._parts[which.kind], key=lambda part: part["topic"].encode()))


def _is_asked_for(group_id: str, which: ReportFilter) -> bool:
    is_named = which.group_id is None or group_id == which.group_id
    return is_named and (which.after is None or group_id.encode() > which.after.encode())
