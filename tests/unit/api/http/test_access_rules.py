"""Which operation a change of a group needs, as docs/security.md says ("Access control entries")."""

import pytest

from api.http.authorization import access_rule_of
from api.shared.access_control import Operation
from api.shared.authorization import Scope


@pytest.mark.parametrize(
    ("request_name", "method", "action", "operation"),
    [
        ("AlterGroupConfig", "PUT", "/config", Operation.CONFIGURE),
        ("ForceRebalance", "POST", "/rebalance", Operation.CONFIGURE),
        ("RemoveMember", "DELETE", "/members/{member_id:str}", Operation.CONFIGURE),
        ("ReloadGroup", "POST", "/reload", Operation.CONFIGURE),
        ("DeleteGroups", "DELETE", "", Operation.DELETE),
        ("OffsetDelete", "DELETE", "/offsets", Operation.DELETE_OFFSETS),
    ],
)
def test_change_of_a_group_needs_its_operation(
    request_name: str, method: str, action: str, operation: Operation
) -> None:
    rule = access_rule_of(request_name, method, f"/v1/groups/{{group_id:str}}{action}")
    assert rule == (operation, Scope.GROUP)
