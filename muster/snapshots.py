"""Snapshots of groups and maintenance runs, read from nodes over HTTP, for the live view.

Without names a snapshot has the groups that need attention first, and describes the first of those with members. It is
a look and no more: a slow node is given up, and the last snapshot remains.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from muster import display
from muster.errors import UserError
from muster.node_client import ApiError, Json, NodeClient, group_path

LISTED_MAX: Final = 100
"""The maximum number of groups of a snapshot, unless groups are named."""
DESCRIBED_MAX: Final = 20
"""The maximum number of these that are described, with their members."""
MIN_INTERVAL_S: Final = 1.0
READ_COST_FACTOR: Final = 10
"""The pause after a read, as a multiple of its duration, so that reads take a tenth of the time at most."""


class WatchedGroup(NamedTuple):
    """A group at one moment."""

    summary: Json
    """The group as the overview of the API has it."""
    described: Json | None = None
    """The group with its members; None if it was not read."""
    triggered_by: str | None = None
    """The client that triggered the last rebalance, as far as it was read."""

    @property
    def group_id(self) -> str:
        """The group's id."""
        return str(self.summary["group_id"])

    @property
    def state(self) -> str:
        """The state: as the owner of the group describes it, else as it was last stored."""
        return str((self.described or self.summary)["state"])

    @property
    def state_now(self) -> str:
        """The state to show: a flapping group is not just Stable."""
        return display.state_now(self.state, self.summary["rebalances_last_hour"])

    @property
    def generation(self) -> int:
        """The generation, likewise."""
        return int((self.described or self.summary)["generation"])

    @property
    def members(self) -> list[Json]:
        """The members, as far as they were read."""
        return list(self.described["members"]) if self.described else []


class Snapshot(NamedTuple):
    """Groups and maintenance runs at one time; the newest run comes first."""

    at: str = ""
    groups: Sequence[WatchedGroup] = ()
    hidden_group_count: int = 0
    runs: Sequence[Json] = ()
    trouble: str = ""
    """Why the last read failed; empty if it succeeded."""


class SnapshotReader:
    """Reads snapshots from one of several nodes, each of which describes all groups."""

    def __init__(self, nodes: Sequence[NodeClient], group_ids: Sequence[str] = (), *, with_runs: bool = False) -> None:
        """Prepare, without a read.

        Args:
            nodes: should not be retried, so that one look asks once.
            group_ids: the groups of each snapshot; none stands for those that need attention first.
            with_runs: whether maintenance runs are read too.
        """
        self.last = Snapshot()
        self._nodes = list(nodes)
        self._group_ids = group_ids
        self._with_runs = with_runs
        self._triggers: dict[str, tuple[str, str | None]] = {}
        self._next_at_s = 0.0

    def refresh(self) -> bool:
        """Read if a read is due; return whether `last` is new. After a failed read only its `trouble` is new."""
        started_at_s = time.monotonic()
        if started_at_s < self._next_at_s:
            return False
        try:
            self.read()
        except UserError as failure:
            self.last = self.last._replace(trouble=failure.sentence)
            self._nodes.append(self._nodes.pop(0))
        now_s = time.monotonic()
        self._next_at_s = now_s + max(MIN_INTERVAL_S, (now_s - started_at_s) * READ_COST_FACTOR)
        return True

    def read(self) -> Snapshot:
        """Read now, and return the snapshot.

        Raises:
            UserError: the node does not answer or refuses; `last` is as it was.
        """
        node = self._nodes[0]
        groups, total = self._named(node) if self._group_ids else self._most_urgent(node)
        runs = node.get("/v1/maintenance/runs")["runs"] if self._with_runs else ()
        self.last = Snapshot(f"{datetime.now(UTC):%H:%M:%S}", groups, total - len(groups), runs)
        return self.last

    def _most_urgent(self, node: NodeClient) -> tuple[list[WatchedGroup], int]:
        """Return the first groups, and their total number: rebalancing ones first, then those with members."""
        page = node.get("/v1/overview/groups", limit=LISTED_MAX)
        described = [each["group_id"] for each in page["groups"] if _is_worth_describing(each)][:DESCRIBED_MAX]
        found = [
            self._described_if_possible(node, each) if each["group_id"] in described else WatchedGroup(each)
            for each in page["groups"]
        ]
        self._triggers = {group_id: self._triggers[group_id] for group_id in described if group_id in self._triggers}
        found.sort(key=lambda group: (group.state not in display.REBALANCING, group.state == "Empty", group.group_id))
        return found, sum(page["counts"].values())

    def _named(self, node: NodeClient) -> tuple[list[WatchedGroup], int]:
        found = []
        for group_id in self._group_ids:
            described = node.whole(group_path(group_id), "members")
            alike = node.pages("/v1/overview/groups", "groups", q=group_id, sort="group_id")
            summary = next(
                (each for each in alike if each["group_id"] == group_id), NOT_STORED | {"group_id": group_id}
            )
            found.append(self._described(node, summary, described))
        return found, len(found)

    def _described_if_possible(self, node: NodeClient, summary: Json) -> WatchedGroup:
        """Describe a group; without its members if it was deleted, is quarantined or has no owner now."""
        try:
            return self._described(node, summary)
        except ApiError:
            return WatchedGroup(summary)

    def _described(self, node: NodeClient, summary: Json, described: Json | None = None) -> WatchedGroup:
        group_id = summary["group_id"]
        described = described or node.whole(group_path(group_id), "members")
        return WatchedGroup(summary, described, self._triggered_by(node, group_id, summary["last_rebalance_at"]))

    def _triggered_by(self, node: NodeClient, group_id: str, ended_at: str | None) -> str | None:
        """Return the client that triggered the rebalance that ended at a time; cached."""
        if ended_at is None:
            return None
        if self._triggers.get(group_id, ("",))[0] != ended_at:
            newest = node.pages(group_path(group_id, "/rebalances"), "rebalances", 1)
            self._triggers[group_id] = (
                ended_at,
                display.client_id_of(newest[0]["trigger_member_id"] if newest else None),
            )
        return self._triggers[group_id][1]


def _is_worth_describing(summary: Json) -> bool:
    return bool(summary["member_count"]) or summary["state"] in display.REBALANCING


NOT_STORED: Final = {
    "state_since": None,
    "member_count": 0,
    "rebalances_last_hour": 0,
    "lag": None,
    "is_lag_lower_bound": False,
    "log_end_at": None,
    "rebalance_trigger": None,
    "last_rebalance_trigger": None,
    "last_rebalance_at": None,
}
"""The summary of a group that the overview does not list: it is dead."""
