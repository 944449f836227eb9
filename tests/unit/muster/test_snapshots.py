"""Snapshots: which groups are read and described, and what remains when a node does not answer."""

from typing import cast

import pytest

from muster.errors import FAILURE_EXIT_CODE, UNREACHABLE_EXIT_CODE, UserError
from muster.node_client import ApiError, Json, NodeClient
from muster.snapshots import DESCRIBED_MAX, LISTED_MAX, NOT_STORED, SnapshotReader

REBALANCED_AT = "2026-11-01T00:00:00Z"


class ManyGroups:
    """A node with groups, the first of them rebalancing, the next ones Stable and the others Empty."""

    def __init__(self, rebalancing: int = 0, stable: int = 0, empty: int = 0) -> None:
        states = ["PreparingRebalance"] * rebalancing + ["Stable"] * stable + ["Empty"] * empty
        last = {"last_rebalance_trigger": "session_expired", "last_rebalance_at": REBALANCED_AT}
        self.groups = [
            {**NOT_STORED, **last, "group_id": f"g{len(states) - number:04}", "state": state, "generation": 1}
            | {"member_count": int(state != "Empty")}
            for number, state in enumerate(states)
        ]
        self.is_away = False
        self.refused: tuple[str, ...] = ()
        self.described: list[str] = []
        self.asked_for_rebalances = 0

    def get(self, path: str, limit: int = 0, **query: object) -> Json:
        if self.is_away:
            raise UserError("No node answers.", UNREACHABLE_EXIT_CODE)
        if path == "/v1/overview/groups":
            return {"groups": self.groups[:limit], "counts": {"Stable": len(self.groups)}}
        self.described.append(path.rpartition("/")[2])
        if path.endswith(self.refused):
            raise ApiError("the group is quarantined", "COORDINATOR_NOT_AVAILABLE", 503, FAILURE_EXIT_CODE)
        return {"state": "Stable", "generation": 2, "members": []}

    def whole(self, path: str, *_fields: str) -> Json:
        return self.get(path)

    def pages(self, path: str, field: str, limit: int) -> list[Json]:
        self.asked_for_rebalances += 1
        return [{"trigger_member_id": "a-0e984725-c51c-4bf4-9960-e1c80e27aba0"}]


def reader_of(*nodes: ManyGroups) -> SnapshotReader:
    return SnapshotReader([cast(NodeClient, node) for node in nodes])


def test_an_empty_cluster_has_an_empty_snapshot() -> None:
    snapshot = reader_of(ManyGroups()).read()
    assert (snapshot.groups, snapshot.hidden_group_count, snapshot.runs) == ([], 0, ())


def test_rebalancing_groups_come_first_and_empty_ones_last() -> None:
    node = ManyGroups(1, 2, 2)
    node.get = lambda path, **query: (  # type: ignore[method-assign]  # groups as they are listed
        {"groups": node.groups, "counts": {}} if "overview" in path else {**node.groups[0], "members": []}
    )
    node.groups[1]["member_count"] = node.groups[2]["member_count"] = 0
    states = [group.state for group in reader_of(node).read().groups]
    assert states == ["PreparingRebalance", "Stable", "Stable", "Empty", "Empty"]
    assert [group.group_id for group in reader_of(node).read().groups][1:3] == ["g0003", "g0004"]


def test_first_groups_are_listed_and_the_others_counted() -> None:
    snapshot = reader_of(ManyGroups(empty=LISTED_MAX + 5)).read()
    assert len(snapshot.groups) == LISTED_MAX
    assert snapshot.hidden_group_count == 5


@pytest.mark.parametrize(("stable", "described"), [(3, 3), (DESCRIBED_MAX + 1, DESCRIBED_MAX)])
def test_first_groups_with_members_are_described(stable: int, described: int) -> None:
    node = ManyGroups(stable=stable, empty=3)
    snapshot = reader_of(node).read()
    assert len(node.described) == described
    assert sum(group.described is not None for group in snapshot.groups) == described


def test_group_that_cannot_be_described_does_not_hide_the_others() -> None:
    node = ManyGroups(stable=2)
    node.refused = ("g0001",)
    snapshot = reader_of(node).read()
    assert [(group.group_id, group.described is None) for group in snapshot.groups] == [
        ("g0001", True),
        ("g0002", False),
    ]


def test_client_that_triggered_a_rebalance_is_read_once() -> None:
    node = ManyGroups(stable=1)
    reader = reader_of(node)
    assert [reader.read().groups[0].triggered_by for _ in range(2)] == ["a", "a"]
    assert node.asked_for_rebalances == 1
    node.groups[0]["last_rebalance_at"] = "2026-11-01T00:01:00Z"
    reader.read()
    assert node.asked_for_rebalances == 2


def test_second_refresh_waits_for_the_interval() -> None:
    reader = reader_of(ManyGroups())
    assert reader.refresh()
    assert not reader.refresh()


def test_last_snapshot_remains_and_another_node_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.snapshots.MIN_INTERVAL_S", 0.0)
    monkeypatch.setattr("muster.snapshots.READ_COST_FACTOR", 0)
    first, second = ManyGroups(empty=1), ManyGroups(empty=2)
    reader = reader_of(first, second)
    assert reader.refresh()
    first.is_away = True
    assert reader.refresh()
    assert (len(reader.last.groups), reader.last.trouble) == (1, "No node answers.")
    assert reader.refresh()
    assert (len(reader.last.groups), reader.last.trouble) == (2, "")
