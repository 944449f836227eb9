"""Endpoint for the share and streams groups of a mirrored cluster.

Any node answers. Source: docs/mirror.md.
"""

from datetime import datetime

from litestar import get
from litestar.params import FromQuery
from msgspec import Struct

from api.http.cursors import Name, page_of, read_cursor
from api.http.fast_path import REQUEST
from api.http.fields import PageLimit
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from coordinator_core.queries.other_groups import read_other_groups


class OtherGroupResponse(Struct):
    """A share or streams group."""

    group_id: str
    shard_id: int
    protocol_type: str
    """`share` or `streams`."""
    state: str
    """Kafka's name of it: Empty, Assigning, Reconciling or Stable; share groups are Empty or Stable."""
    state_since: datetime
    epoch: int | None
    """It is raised when members or topics change; null, as the number of members: the mirror polls groups."""
    member_count: int | None


class OtherGroupsResponse(Struct):
    """A page of share and streams groups, sorted by id."""

    groups: list[OtherGroupResponse]
    next_cursor: str | None


@get("/v1/other-groups", tags=["Operators: groups"], opt={REQUEST: "ListOtherGroups"})
async def list_other_groups(
    context: CurrentRequest, limit: PageLimit = 100, cursor: FromQuery[str] = ""
) -> OtherGroupsResponse:
    """List the share and streams groups of a mirrored cluster; their members and generations are not mirrored."""
    (after,) = read_cursor(cursor, tuple[Name]) or ("",)
    found = await context.query(read_other_groups, context.covered_groups, after, limit + 1)
    page, next_cursor = page_of(found, lambda each: (each.group_id,), limit)
    return OtherGroupsResponse([response_of(OtherGroupResponse, each) for each in page], next_cursor)
