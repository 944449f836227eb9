"""All of the front door put together."""

from collections.abc import Sequence
from typing import Final

from litestar.handlers import HTTPRouteHandler

from api.console.serving import console
from api.http.body_budget import BodyBudget
from api.http.call import Door
from api.http.deadlines import Deadlines
from api.http.edge import Edge
from api.http.endpoints import (
    candidates,
    changes,
    diagnosis,
    groups,
    history,
    lag,
    maintenance,
    membership,
    node,
    offsets,
    overview,
    reports,
    resets,
    settings,
    stays,
    topics,
    tuning,
)
from api.http.express import express_lane
from api.http.forward_mark import ForwardMarks
from api.http.forwarding import Forwarder
from api.http.framework import litestar_app
from api.http.hosts import AllowedHosts
from api.http.limits import HttpLimits
from api.http.metrics import Metrics
from api.http.openapi import describe_api
from api.http.pages import pages
from api.http.tokens import Tokens
from api.http.translation import OpaqueReaders
from coordinator_core.runtime.coordinator import Coordinator

AGENTS: Final[Sequence[HTTPRouteHandler]] = (
    membership.join,
    membership.sync,
    membership.heartbeat,
    membership.leave,
    offsets.commit,
    offsets.query,
)
"""What agents ask all the time: the express lane."""

OTHERS: Final[Sequence[HTTPRouteHandler]] = (
    offsets.fetch,
    offsets.delete_offsets,
    groups.find_coordinator,
    groups.list_groups,
    overview.list_group_overview,
    groups.describe_group,
    groups.delete_group,
    groups.force_rebalance,
    groups.remove_member,
    groups.list_quarantined_groups,
    groups.reload_group,
    history.list_rebalances,
    history.list_rebalance_members,
    history.list_transitions,
    history.list_assignments,
    stays.list_stays,
    diagnosis.describe_diagnosis,
    lag.describe_lag,
    lag.list_lag,
    settings.cluster_settings,
    settings.put_cluster_settings,
    settings.group_settings,
    settings.put_group_settings,
    tuning.describe_tuning,
    topics.list_topics,
    topics.put_topic,
    topics.delete_topic,
    topics.delete_log_ends,
    resets.reset_offsets,
    changes.list_changes,
    changes.describe_change,
    changes.undo_change,
    maintenance.list_runs,
    maintenance.describe_run,
    candidates.list_candidates,
    maintenance.apply_run,
    maintenance.reject_run,
    reports.list_assignment_reports,
    reports.list_rebalance_reports,
    reports.list_timeout_reports,
    node.health,
    node.readiness,
    node.metrics,
)


def make_app(
    coordinator: Coordinator,
    limits: HttpLimits,
    version: str,
    *,
    forward: bool = True,
    cluster_secret: str = "",
    hosts: AllowedHosts | None = None,
    tokens: Tokens | None = None,
) -> Edge:
    """Return the ASGI application of one node.

    Args:
        coordinator: the node's.
        limits: what a request may be and take.
        version: Muster's.
        forward: whether requests for another node's groups are passed on to it.
        cluster_secret: what all nodes sign such requests with; not empty where there are tokens.
        hosts: the hosts that the node answers to; None: those of loopback.
        tokens: who may ask what; None: everybody everything.
    """
    assert tokens is None or cluster_secret, "whoever can sign with nothing could be anybody"
    document = describe_api([*AGENTS, *OTHERS], version)
    door = Door(
        coordinator,
        limits,
        Deadlines(limits.request_timeout_ms),
        Metrics(),
        OpaqueReaders(),
        ForwardMarks(cluster_secret, coordinator.url, limits.forward_max_age_ms),
        hosts or AllowedHosts(),
        BodyBudget(limits.max_large_bodies_bytes),
        tokens,
    )
    forwarder = Forwarder(
        is_on=forward, timeout_ms=limits.request_timeout_ms, max_connections=limits.max_forward_connections
    )
    return Edge(door, express_lane(AGENTS), litestar_app([*AGENTS, *OTHERS, *pages(document), *console()]), forwarder)
