"""A newcomer starts everything, kills a member, expires offsets through Airflow, and stops everything."""

import os
import re
import signal
from pathlib import Path

import pytest
import urllib3

from tests.e2e.newcomer import Newcomer, newcomer, processes_of
from tests.platform.waiting import eventually

DEMO_GROUPS = {"orders-billing", "clicks-enrichment", "payments-audit"}


@pytest.mark.timeout(600)
def test_a_newcomer_sees_groups_live_a_rebalance_explained_and_offsets_expired(tmp_path: Path) -> None:
    with newcomer(tmp_path / "data") as platform:
        _sees_the_fleet(platform)
        platform.reads(r"user admin, password")
        _kills_a_member(platform)
        _expires_offsets(platform)
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []


def _sees_the_fleet(platform: Newcomer) -> None:
    platform.reads(r"Demonstration fleet")
    eventually(lambda: _stable_groups(platform) >= DEMO_GROUPS, within_s=60)
    moving = "SELECT count(*) > 0 FROM offsets WHERE group_id = 'orders-billing'"
    eventually(lambda: platform.sql(moving) == [(True,)], within_s=60)


def _stable_groups(platform: Newcomer) -> set[str]:
    return {group["group_id"] for group in platform.get("/v1/groups?state=Stable")["groups"]}


def _kills_a_member(platform: Newcomer) -> None:
    """Kill a member by the pid in its client id; the ledger says why the group rebalanced."""
    member = platform.get("/v1/groups/orders-billing")["members"][0]
    pid = re.search(r"pid(\d+)$", member["client_id"])
    assert pid is not None, member
    os.kill(int(pid.group(1)), signal.SIGKILL)
    why = "SELECT trigger_member_id FROM rebalances WHERE group_id = 'orders-billing' AND trigger = 'session_expired'"
    eventually(lambda: platform.sql(why) == [(member["member_id"],)], within_s=60)


def _expires_offsets(platform: Newcomer) -> None:
    """The first run took what was due; a dry run takes nothing, and the next one does."""
    eventually(lambda: _archived(platform) == {"nightly-export", "orders-v1"}, within_s=180)
    assert platform.sql("SELECT count(*) FROM offsets WHERE group_id IN ('nightly-export', 'orders-v1')") == [(0,)]
    platform.reads("A maintenance run")
    eventually(lambda: not platform.has_active_runs("offset_retention"), within_s=180)
    platform.sql(
        "INSERT INTO offsets (group_id, shard_id, topic, partition, committed_offset, committed_at)"
        " VALUES ('forgotten', 7, 't', 0, 1, now() - interval '30 days'), ('fresh', 7, 't', 0, 1, now())"
    )
    assert platform.trigger("offset_retention", {"dry_run": True}) == "success"
    assert platform.sql("SELECT count(*) FROM offsets WHERE group_id = 'forgotten'") == [(1,)]
    assert platform.trigger("offset_retention", {}) == "success"
    assert _archived(platform) == {"nightly-export", "orders-v1", "forgotten"}
    kept = platform.sql("SELECT DISTINCT group_id FROM offsets")
    assert {group for (group,) in kept} == {*DEMO_GROUPS, "orders-replay", "fresh"}


def _archived(platform: Newcomer) -> set[str]:
    return {group for (group,) in platform.sql("SELECT DISTINCT group_id FROM archived_offsets")}


@pytest.mark.timeout(300)
def test_a_killed_node_loses_no_commit_and_costs_no_rebalance(tmp_path: Path) -> None:
    with newcomer(tmp_path / "data", "--no-airflow") as platform:
        _sees_the_fleet(platform)
        before = _present(platform)
        committed = dict(platform.sql("SELECT partition, committed_offset FROM offsets WHERE topic = 'orders'"))
        node = next(pid for pid in processes_of(platform.data_dir) if _is_node(pid))
        os.kill(node, signal.SIGKILL)
        moved_on = "SELECT count(*) FROM offsets WHERE topic = 'orders' AND committed_at > now() - interval '2 seconds'"
        eventually(lambda: not _is_node(node), within_s=30)
        eventually(lambda: _serves(platform) and platform.sql(moved_on)[0][0] > 0, within_s=60)
        after = dict(platform.sql("SELECT partition, committed_offset FROM offsets WHERE topic = 'orders'"))
        assert all(after[partition] >= offset for partition, offset in committed.items())
        assert _present(platform) == before
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []
    with newcomer(platform.data_dir, "--no-airflow", "--no-demo") as again:
        again.reads(r"owns its shards")
        assert again.sql("SELECT count(*) > 0 FROM offsets WHERE topic = 'orders'") == [(True,)]
        assert again.stop() == 0


def _present(platform: Newcomer) -> object:
    """Return the group that nobody joins or leaves by itself: its generation and members."""
    group = platform.get("/v1/groups/orders-billing")
    return group["generation"], sorted(member["member_id"] for member in group["members"])


def _is_node(pid: int) -> bool:
    try:
        return b"\0serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _serves(platform: Newcomer) -> bool:
    try:
        return bool(platform.get("/v1/groups/orders-billing")["state"] == "Stable")
    except (urllib3.exceptions.HTTPError, AssertionError):
        return False
