"""Endpoint for the diagnosis of a group: the clients that caused rebalances within the last hour, and remedies.

Any node answers, also for deleted groups. Source: http-api.md "Diagnosis".
"""

from typing import Final

from litestar import get
from msgspec import Struct

from api.http.fast_path import REQUEST
from api.http.fields import GroupId
from api.http.request_context import CurrentRequest
from api.http.rows import response_of
from coordinator_core.queries.diagnosis import Finding, FindingKind, diagnose

TAGS: Final = ["Operators: history"]


class FindingResponse(Struct):
    """A finding about one client, which is an instance id, or else a client id and a host."""

    kind: FindingKind
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    text: str
    """The finding in sentences that begin with the client's name."""
    setting: str | None
    """The setting of the group that would help; null: none."""
    value: int | None
    """The recommended value in milliseconds; null: the operator has to choose."""


class DiagnosisResponse(Struct):
    """The findings of the last hour; evictions come first."""

    group_id: str
    findings: list[FindingResponse]


@get("/v1/groups/{group_id:str}/diagnosis", tags=TAGS, opt={REQUEST: "DescribeDiagnosis"})
async def describe_diagnosis(context: CurrentRequest, group_id: GroupId) -> DiagnosisResponse:
    """List the clients that caused rebalances of the group within the last hour, with causes and remedies."""
    coordinator = context.coordinator
    found = await context.query(
        diagnose, group_id, coordinator.metadata_cache.effective_settings(group_id), coordinator.wall_ms()
    )
    return DiagnosisResponse(group_id, [_finding(each) for each in found])


def _finding(finding: Finding) -> FindingResponse:
    client = finding.client._asdict()
    return response_of(FindingResponse, finding, **client, value=finding.value_ms)
