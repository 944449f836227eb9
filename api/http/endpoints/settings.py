"""Endpoints for the settings of the cluster and of groups; a group's setting overrides the cluster's.

Source: settings.md "Group settings".
"""

from typing import Final

from litestar import get, put
from litestar.params import JSONBody
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.fields import GroupId, RequiredReason
from api.http.request_context import CurrentRequest, RequestContext
from api.http.rows import response_of
from coordinator_core.admin.settings import put_settings
from coordinator_core.runtime.views import SettingSource

TAGS: Final = ["Operators: settings"]

Value = int | str | None


class SettingsBody(Struct, forbid_unknown_fields=True):
    """The settings to change; null resets a setting to its default. Other settings are unchanged."""

    values: dict[str, Value]
    reason: RequiredReason


class SettingResponse(Struct):
    """An effective setting, and its source."""

    value: Value
    source: SettingSource


class SettingsResponse(Struct):
    """All effective settings, by key."""

    values: dict[str, SettingResponse]


class ClusterSettingsResponse(SettingsResponse):
    """All effective settings of the cluster, and the nodes that have not confirmed the newest, sorted."""

    unconfirmed_nodes: list[str]
    mirrored_cluster: str | None
    """The id of the Kafka cluster that the nodes mirror; null: they coordinate their groups."""


@get("/v1/config", tags=TAGS, opt={REQUEST: "DescribeClusterConfig"})
async def cluster_settings(context: CurrentRequest) -> ClusterSettingsResponse:
    """Describe the effective settings of groups without settings of their own."""
    await context.coordinator.refresh_settings()
    unconfirmed_nodes = await context.coordinator.confirmations.unconfirmed_nodes()
    return ClusterSettingsResponse(_effective(context, None), unconfirmed_nodes, context.coordinator.mirrored_cluster)


@put("/v1/config", tags=TAGS, opt={REQUEST: "AlterClusterConfig"})
async def put_cluster_settings(context: CurrentRequest, data: JSONBody[SettingsBody]) -> ClusterSettingsResponse:
    """Change settings of the cluster; effective on each node that is not listed when the response is sent."""
    await put_settings(context.coordinator, None, data.values, context.begin_change(data.reason))
    unconfirmed_nodes = await context.wait_for_confirmations()
    return ClusterSettingsResponse(_effective(context, None), unconfirmed_nodes, context.coordinator.mirrored_cluster)


@get("/v1/groups/{group_id:str}/config", tags=TAGS, opt={REQUEST: "DescribeGroupConfig"})
async def group_settings(context: CurrentRequest, group_id: GroupId) -> SettingsResponse:
    """Describe the effective settings of a group, which need not exist."""
    await context.coordinator.refresh_settings()
    return SettingsResponse(_effective(context, group_id))


@put("/v1/groups/{group_id:str}/config", tags=TAGS, opt={REQUEST: "AlterGroupConfig"})
async def put_group_settings(
    context: CurrentRequest, group_id: GroupId, data: JSONBody[SettingsBody]
) -> SettingsResponse:
    """Change settings of a group, which need not exist; effective when the response is sent."""
    await put_settings(context.coordinator, group_id, data.values, context.begin_change(data.reason))
    return SettingsResponse(_effective(context, group_id))


def _effective(context: RequestContext, group_id: str | None) -> dict[str, SettingResponse]:
    effective = context.coordinator.metadata_cache.effective_settings(group_id)
    return {key: response_of(SettingResponse, setting) for key, setting in effective.items()}
