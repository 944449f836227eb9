"""Assembly of the HTTP API: the list of endpoints, and the ASGI application of a node."""

from collections.abc import Sequence
from functools import cache
from typing import Final

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from api.console.serving import console
from api.http import LISTENER
from api.http.asgi import AsgiApp
from api.http.consumer_json import Base64Members
from api.http.endpoints import (
    candidates,
    changes,
    diagnosis,
    groups,
    history,
    lag,
    maintenance,
    member_sessions,
    membership,
    node,
    offsets,
    other_groups,
    overview,
    reports,
    resets,
    settings,
    topics,
    tuning,
)
from api.http.fast_path import fast_path_endpoints
from api.http.forward_signature import ForwardSigner
from api.http.forwarding import Forwarder
from api.http.hosts import AllowedHosts
from api.http.limits import HttpLimits
from api.http.litestar_adapter import litestar_app
from api.http.metrics import Metrics
from api.http.openapi import describe_api
from api.http.pages import pages
from api.http.request_context import ServerContext
from api.shared.node_context import NodeContext
from api.shared.trusted_proxies import NO_PROXIES, TrustedProxies
from coordinator_core.queries.metrics_snapshot import MetricsSnapshot

FAST_PATH_HANDLERS: Final[Sequence[HTTPRouteHandler]] = (
    membership.join,
    membership.sync,
    membership.heartbeat,
    membership.leave,
    offsets.commit,
    offsets.query,
)
"""Requests that agents send all the time."""

LITESTAR_HANDLERS: Final[Sequence[HTTPRouteHandler]] = (
    offsets.fetch,
    offsets.delete_offsets,
    groups.find_coordinator,
    groups.list_groups,
    overview.list_group_overview,
    overview.list_topic_overview,
    overview.describe_activity,
    other_groups.list_other_groups,
    groups.describe_group,
    groups.delete_group,
    groups.force_rebalance,
    groups.remove_member,
    groups.list_quarantined_groups,
    groups.reload_group,
    history.list_rebalances,
    history.list_rebalance_members,
    history.list_transitions,
    history.list_ownership,
    member_sessions.list_member_sessions,
    diagnosis.describe_diagnosis,
    lag.describe_lag,
    lag.list_lag,
    settings.cluster_settings,
    settings.put_cluster_settings,
    settings.group_settings,
    settings.put_group_settings,
    tuning.describe_tuning,
    topics.list_topics,
    topics.describe_topic,
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
    *reports.report_lists(),
    node.health,
    node.readiness,
    node.metrics,
)


def make_app(
    node: NodeContext,
    limits: HttpLimits,
    version: str,
    *,
    forward: bool = True,
    cluster_secret: str = "",
    accepted_cluster_secret: str = "",
    hosts: AllowedHosts | None = None,
    trusted_proxies: TrustedProxies = NO_PROXIES,
) -> AsgiApp:
    """Return the ASGI application of one node.

    Args:
        node: what all listeners of the node share.
        limits: limits on requests and connections.
        version: the version of Muster, for the OpenAPI document.
        forward: whether requests for groups of another node are forwarded to it.
        cluster_secret: the key with which all nodes sign forwarded requests; not empty if there are tokens.
        accepted_cluster_secret: another one, whose signatures are accepted while it is replaced; empty: none.
        hosts: the hosts that the node accepts; None: loopback only.
        trusted_proxies: the proxies whose X-Forwarded-For names the client.
    """
    assert node.tokens is None or cluster_secret, (
        "tokens need a cluster secret, or forwarded identities could be forged"
    )
    server = ServerContext(
        node,
        MetricsSnapshot(node.queries, node.coordinator),
        limits,
        Metrics(node.metrics, node.tls),
        Base64Members(),
        ForwardSigner(
            cluster_secret,
            node.coordinator.listeners[LISTENER],
            limits.forward_max_age_ms,
            accepted_secret=accepted_cluster_secret,
        ),
        hosts or AllowedHosts(),
        trusted_proxies,
    )
    forwarder = Forwarder(
        is_on=forward,
        timeout_ms=limits.request_timeout_ms,
        max_connections=limits.max_forward_connections,
        tls=node.tls,
    )
    return AsgiApp(
        server,
        fast_path_endpoints(FAST_PATH_HANDLERS),
        _routes(version),
        forwarder,
    )


@cache
def _routes(version: str) -> Litestar:
    """Return all routes, which know no node: those of several nodes in one process, as in tests, are made once."""
    handlers = [*FAST_PATH_HANDLERS, *LITESTAR_HANDLERS]
    return litestar_app([*handlers, *pages(describe_api(handlers, version)), *console()])
