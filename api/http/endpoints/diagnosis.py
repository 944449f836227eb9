"""Diagnosis over HTTP: which clients cost a group rebalances within the last hour, why, and what would cure it.

Any node answers, of groups that are gone too. Source: http-api.md "Diagnosis".
"""

from typing import Final

from litestar import get
from msgspec import Struct

from api.http.call import ThisCall
from api.http.express import REQUEST
from api.http.fields import GroupId
from coordinator_core.runtime.diagnosis import Finding, FindingKind

TAGS: Final = ["Operators: history"]


class FindingShown(Struct):
    """What stands out about one client: an instance id alone, or a client id and a host."""

    kind: FindingKind
    group_instance_id: str | None
    client_id: str | None
    client_host: str | None
    text: str
    """Sentences that begin with the client's name."""
    setting: str | None
    """A setting of the group that would help; null: no setting does."""
    value: int | None
    """What to set it to, in milliseconds; null: that is for people to weigh."""


class DiagnosisAnswer(Struct):
    """What stands out in the last hour; evictions come first."""

    group_id: str
    findings: list[FindingShown]


@get("/v1/groups/{group_id:str}/diagnosis", tags=TAGS, opt={REQUEST: "DescribeDiagnosis"})
async def describe_diagnosis(call: ThisCall, group_id: GroupId) -> DiagnosisAnswer:
    """Say which clients cost the group rebalances within the last hour, why, and what would cure it."""
    found = await call.coordinator.diagnosis.look(group_id)
    return DiagnosisAnswer(group_id, [_finding(each) for each in found])


def _finding(finding: Finding) -> FindingShown:
    return FindingShown(
        kind=finding.kind,
        group_instance_id=finding.client.group_instance_id,
        client_id=finding.client.client_id,
        client_host=finding.client.client_host,
        text=finding.text,
        setting=finding.setting,
        value=finding.value_ms,
    )
