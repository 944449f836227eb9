"""Every paged list refuses a foreign cursor with 400; the tests of each list cover paging."""

from base64 import urlsafe_b64encode

import pytest

from tests.support.http_client import Client

LISTS = [
    "/v1/groups",
    "/v1/overview/groups",
    "/v1/changes",
    "/v1/maintenance/runs/6b0f3d4e-28f0-4a34-9f5e-0a4f1f2f3f4f/candidates",
    "/v1/reports/assignments",
    "/v1/reports/rebalances",
    "/v1/reports/timeouts",
    "/v1/groups/g/offsets",
    "/v1/groups/g/rebalances",
    "/v1/groups/g/transitions",
    "/v1/groups/g/member-sessions",
]
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
        cursor = urlsafe_b64encode(decoded).decode().rstrip("=")
        answer = client.call("GET", f"{path}?cursor={cursor[:8_000]}")
        assert (answer.status, answer.code) == (400, "INVALID_REQUEST"), (decoded[:40], answer)
        assert "cursor" in answer.json["detail"]
