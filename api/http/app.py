"""All of the front door put together."""

from collections.abc import Sequence
from typing import Final

from litestar.handlers import HTTPRouteHandler

from api.http.call import Door
from api.http.deadlines import Deadlines
from api.http.edge import Edge
from api.http.endpoints import groups, maintenance, membership, node, offsets, settings, topics
from api.http.express import express_lane
from api.http.framework import litestar_app
from api.http.limits import HttpLimits
from api.http.metrics import Metrics
from api.http.openapi import describe_api
from api.http.pages import pages
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
    groups.describe_group,
    groups.delete_group,
    groups.force_rebalance,
    groups.remove_member,
    settings.cluster_settings,
    settings.put_cluster_settings,
    settings.group_settings,
    settings.put_group_settings,
    topics.list_topics,
    topics.put_topic,
    maintenance.list_runs,
    maintenance.describe_run,
    maintenance.apply_run,
    maintenance.reject_run,
    node.health,
    node.readiness,
    node.metrics,
)


def make_app(coordinator: Coordinator, limits: HttpLimits, version: str) -> Edge:
    """Return the ASGI application of one node."""
    document = describe_api([*AGENTS, *OTHERS], version)
    door = Door(coordinator, limits, Deadlines(limits.request_timeout_ms), Metrics(), OpaqueReaders())
    return Edge(door, express_lane(AGENTS), litestar_app([*AGENTS, *OTHERS, *pages(document)]))
