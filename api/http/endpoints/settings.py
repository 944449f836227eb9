"""Settings over HTTP, of the cluster and of a group; narrower wins.

Source: settings.md "Of groups".
"""

from typing import Final

from litestar import get, put
from litestar.params import JSONBody
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import GivenReason, GroupId
from coordinator_core.runtime.views import SettingInForce, SettingSource

TAGS: Final = ["Operators: settings"]

Value = int | str | None


class SettingsBody(Struct, forbid_unknown_fields=True):
    """The settings to change; null goes back to the wider level. Others stay as they are."""

    values: dict[str, Value]
    reason: GivenReason


class SettingShown(Struct):
    """A setting in force, and where it comes from."""

    value: Value
    source: SettingSource


class SettingsAnswer(Struct):
    """Every setting in force, by its key."""

    values: dict[str, SettingShown]


@get("/v1/config", tags=TAGS, opt={REQUEST: "DescribeClusterConfig"})
async def cluster_settings(call: ThisCall) -> SettingsAnswer:
    """Show the settings in force for groups that have none of their own."""
    return _answer(call.coordinator.settings_in_force(None))


@put("/v1/config", tags=TAGS, opt={REQUEST: "AlterClusterConfig"})
async def put_cluster_settings(call: ThisCall, data: JSONBody[SettingsBody]) -> SettingsAnswer:
    """Change settings of the cluster; in force on every node within one renewal."""
    await call.coordinator.operators.put_settings(None, data.values, call.act(data.reason))
    return _answer(call.coordinator.settings_in_force(None))


@get("/v1/groups/{group_id:str}/config", tags=TAGS, opt={REQUEST: "DescribeGroupConfig"})
async def group_settings(call: ThisCall, group_id: GroupId) -> SettingsAnswer:
    """Show the settings in force for a group, which need not exist yet."""
    return _answer(call.coordinator.settings_in_force(group_id))


@put("/v1/groups/{group_id:str}/config", tags=TAGS, opt={REQUEST: "AlterGroupConfig"})
async def put_group_settings(call: ThisCall, group_id: GroupId, data: JSONBody[SettingsBody]) -> SettingsAnswer:
    """Change settings of a group, which need not exist yet; in force on every node within one renewal."""
    await call.coordinator.operators.put_settings(group_id, data.values, call.act(data.reason))
    return _answer(call.coordinator.settings_in_force(group_id))


def _answer(in_force: dict[str, SettingInForce]) -> SettingsAnswer:
    return SettingsAnswer({key: SettingShown(setting.value, setting.source) for key, setting in in_force.items()})
