"""Limits have the same value in code, settings and documentation."""

from api.http import limits
from api.http.limits import HttpLimits
from api.shared import limits as shared
from muster.settings import Settings
from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "http-api.md"


def test_a_node_without_settings_has_the_limits_own_defaults() -> None:
    settings = Settings()

    assert HttpLimits() == HttpLimits(
        max_body_bytes=settings.max_body_bytes,
        max_large_bodies_bytes=settings.max_large_bodies_bytes,
        max_large_bodies_bytes_per_s=settings.max_large_bodies_bytes_per_s,
        max_partitions_per_request=settings.max_partitions_per_request,
        request_timeout_ms=settings.request_timeout_ms,
    )


def test_the_page_lists_the_limits() -> None:
    lines = PAGE.read_text().partition("## Limits")[2].splitlines()
    table = dict(line.strip("| ").split(" | ")[:2] for line in lines if " | " in line)

    assert table["request body"] == f"{HttpLimits().max_body_bytes // 2**20} MiB"
    assert table["all bodies over 64 KiB in progress"] == f"{HttpLimits().max_large_bodies_bytes // 2**20} MiB"
    assert table["bodies over 64 KiB that a node begins to answer in a second"] == (
        f"{HttpLimits().max_large_bodies_bytes_per_s // 2**20} MiB"
    )
    partitions = table["partitions in one commit, query, reset or deletion of offsets or of a group"]
    assert partitions == f"{HttpLimits().max_partitions_per_request:,}"
    assert table["duration of a request other than a long poll"] == f"{HttpLimits().request_timeout_ms // 1_000} s"
    assert table["head of a request; trailers and framing of a chunked body"] == f"{limits.HEAD_MAX_BYTES // 2**10} KiB"
    lengths = (
        shared.GROUP_ID_MAX_CHARS,
        shared.TOPIC_MAX_CHARS,
        shared.CLIENT_ID_MAX_CHARS,
        shared.INSTANCE_ID_MAX_CHARS,
        shared.MEMBER_ID_MAX_CHARS,
    )
    ids = table["group id; topic; client id; instance id; member id"]
    assert ids == "; ".join(map(str, lengths)) + " characters"
    texts = (shared.REASON_MAX_CHARS, shared.ACTOR_MAX_CHARS, limits.REQUEST_ID_MAX_CHARS)
    assert table["reason; actor; request id"] == "; ".join(f"{n:,}" for n in texts) + " characters"
    counts = (shared.PROTOCOLS_MAX, shared.LEAVING_MEMBERS_MAX)
    assert table["supported protocols; members in one leave request"] == "; ".join(f"{n:,}" for n in counts)
    pages = (limits.PAGE_MAX, limits.LONG_PAGE_MAX)
    listed = table["items in one page; members, partitions or topics in one page"]
    assert listed == "; ".join(f"{n:,}" for n in pages)
