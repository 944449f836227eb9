"""Every paged list refuses a foreign cursor with 400; the tests of each list cover paging."""

from base64 import urlsafe_b64encode

import pytest

from api.http.authorization import report_request
from coordinator_core.jobs import JOBS
from tests.support.http_client import Client

LISTS = {
    "/v1/groups": "ListGroups",
    "/v1/overview/groups": "ListGroupOverview",
    "/v1/changes": "ListChanges",
    "/v1/maintenance/runs/6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f/candidates": "ListCandidates",
    **{f"/v1/reports/{job.subject}": report_request(job) for job in JOBS.values() if job.is_report},
    "/v1/groups/g/offsets": "OffsetFetch",
    "/v1/groups/g/rebalances": "ListRebalances",
    "/v1/groups/g/transitions": "ListTransitions",
    "/v1/groups/g/member-sessions": "ListMemberSessions",
}
"""Path → the name of the list, which its cursors have."""
FOREIGN = [
    b"\x00",
    b"\xff",
    b"{",
    b"[]",
    b"[null]",
    b'["a\\u0000"]',
    b'["\\ud800"]',
    b'["a","\\u0000",0]',
    b'[99999999999999999999,"6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f"]',
    b'[1,"a\\u0000"]',
    b"[1,2,3,99999999999]",
    b"[" * 100_000,
]


@pytest.mark.parametrize("path", LISTS)
def test_foreign_cursor_is_refused(client: Client, path: str) -> None:
    first = client.call("GET", path)
    assert first.status in {200, 404}, first

    for decoded in FOREIGN:
        cursor = urlsafe_b64encode(f"{LISTS[path]} ".encode() + decoded).decode().rstrip("=")
        answer = client.call("GET", f"{path}?cursor={cursor[:8_000]}")
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), (decoded[:40], answer)
        assert "cursor" in answer.json["detail"]


def test_cursor_of_another_list_is_refused(client: Client) -> None:
    for topic in ("cursor-1", "cursor-2"):
        client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1})
    cursor = client.ok("GET", "/v1/topics?limit=1")["next_cursor"]
    assert client.ok("GET", f"/v1/topics?limit=1&cursor={cursor}")["topics"]
    answer = client.call("GET", f"/v1/groups?cursor={cursor}")
    assert (answer.status, answer.code) == (400, "INVALID_REQUEST")
