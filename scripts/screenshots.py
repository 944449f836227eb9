"""Screenshots of the console for its page, in docs/images/, from a node with sample groups.

    make screenshots

A node and a database are started as for the console's tests. Times in the pictures are those of the run, so run it when
the console has changed, and not before each commit.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from structlog.testing import capture_logs

from muster.local.embedded_postgres import EmbeddedPostgres
from tests.integration.console.chromium import running_chromium
from tests.integration.console.sample_groups import LONG_MS, SIMPLE_CONSUMER, SampleGroups
from tests.support.databases import FORGETFUL, Databases, cluster_directory
from tests.support.http_client import Client, position
from tests.support.nodes import Node, running_node
from tests.support.offset_log import wait_for_checkpoint
from tests.support.report_rows import AUDIT, DAY, FREQUENCY, complete_row, insert_reports, report
from tests.support.tools import library

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
WIDTH: Final = 1_280
HEIGHT: Final = 800
BYTES_MAX: Final = 150_000
TOPIC: Final = "orders"
REPORTED_DAYS: Final = 14

PAST: Final = """
WITH past (at, took_s, trigger, client_id) AS (
    SELECT now() - n * interval '19 minutes', 4 + n %% 5, 'session_expired', 'payments-2'
    FROM generate_series(20, 40) AS n
    UNION ALL SELECT now() - n * interval '19 minutes' + interval '30 s', 2 + n %% 3, 'member_joined', 'payments-2'
    FROM generate_series(20, 40) AS n
    UNION ALL SELECT now() - n * interval '5 hours', 3, 'member_left', 'payments-1' FROM generate_series(1, 4) AS n
), done AS (
    INSERT INTO rebalances (rebalance_id, group_id, shard_id, group_created_at, generation, trigger, started_at,
        completed_at, outcome, restarts, member_count_before, member_count_after, partitions_moved)
    SELECT gen_random_uuid(), %(group_id)s, shard_id, created_at, 1, trigger, at - took_s * interval '1 s', at,
        'completed', 0, 2, 2, 6
    FROM past, groups WHERE group_id = %(group_id)s
    RETURNING *
), evicted AS (
    INSERT INTO member_sessions (group_id, shard_id, group_created_at, member_id, client_id, client_host, generation,
        session_timeout_ms, joined_at, started_at, ended_at, end_reason, last_heartbeat_at, heartbeat_count,
        heartbeat_gap_histogram)
    SELECT %(group_id)s, shard_id, created_at, client_id || at, client_id, '10.0.0.7', 1, 6000,
        at - interval '18 min', at - interval '18 min', at, 'session_expired', at - interval '6 s', 500,
        array_fill(0, ARRAY[23])
    FROM past, groups WHERE group_id = %(group_id)s AND trigger = 'session_expired'
)
INSERT INTO group_transitions (group_id, shard_id, group_created_at, at, generation, from_state, to_state, reason)
SELECT group_id, shard_id, group_created_at, started_at, 1, 'Stable', 'PreparingRebalance', trigger FROM done
UNION ALL SELECT group_id, shard_id, group_created_at, completed_at, 1, 'CompletingRebalance', 'Stable', '' FROM done
"""
"""A day in which a member was evicted and rejoined, again and again for some hours."""


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with ExitStack() as stack:
        try:
            browser = stack.enter_context(chromium())
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:
            sys.exit(missing.msg)
        node = stack.enter_context(sample_node())
        client = stack.enter_context(closing(Client(node.url)))
        samples = stack.enter_context(closing(SampleGroups(client, node)))
        group_id = create_samples(samples)
        take_all(browser, node, group_id, IMAGES)


@contextmanager
def sample_node() -> Iterator[Node]:
    """Serve a node on an empty database."""
    with (
        capture_logs(),
        tempfile.TemporaryDirectory() as folder,
        cluster_directory(Path(folder)) as directory,
        EmbeddedPostgres(directory, max_connections=100, options=FORGETFUL) as postgres,
        closing(Databases(postgres)) as databases,
        running_node(databases.create(), group_initial_rebalance_delay_ms=0) as node,
    ):
        yield node


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser."""
    library("libatomic.so.1")
    with sync_playwright() as playwright, running_chromium(playwright) as browser:
        yield browser


# -- data ---------------------------------------------------------------------------------------------------


def create_samples(samples: SampleGroups) -> str:
    """Create groups, reports and a proposal; return the group to show."""
    samples.client.ok("PUT", f"/v1/topics/{TOPIC}", {"partitions": 6, "reason": "created"})
    billing = samples.healthy("billing", partitions=6)
    with samples.rows.cursor() as cursor:
        cursor.execute(PAST, {"group_id": billing.group_id})
    for name, offset in (("invoices", 900), ("audit", 40)):
        long = {"session_timeout_ms": LONG_MS, "rebalance_timeout_ms": LONG_MS, "client_id": f"{name}-1"}
        samples.client.group(name).stable(TOPIC, **long).commit(position(offset, log_end_offset=1_000))
    flapping = samples.flapping()
    samples.stuck()
    samples.proposal(samples.client.group("nightly-export"))
    samples.client.group("backfill").post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(7, partition=3)]})
    wait_for_checkpoint(samples.rows)
    insert_sample_reports(samples.rows, billing.group_id, flapping.group_id)
    return billing.group_id


def insert_sample_reports(rows: PsycopgConnection, evicting: str, flapping: str) -> None:
    """Insert reports of three groups for each of the last days, as jobs write them."""
    yesterday = (datetime.now(UTC) - DAY).days - 1
    for ago in range(REPORTED_DAYS):
        insert_reports_of_a_day(rows, evicting, flapping, yesterday - ago, ago)


def insert_reports_of_a_day(rows: PsycopgConnection, evicting: str, flapping: str, day: int, ago: int) -> None:
    """Insert the reports of a day that is so many days before yesterday."""
    frequency = {**FREQUENCY, "took_p95_ms": 9_000}
    busy = {**frequency, "rebalances": 46 // (1 + ago), "rebalancing_share": 0.002, "rebalancing_ms": 180_000}
    churning = {**frequency, "rebalances": 310 - 22 * ago, "rebalancing_share": 0.22, "rebalancing_ms": 19_000_000}
    evictions = {"evicted": 21, "spuriously_evicted": 21}
    frequencies = [
        report(flapping, day, of={**churning, "is_churning": True}),
        report(evicting, day, of={**busy, **evictions}),
    ]
    insert_reports(rows, "rebalances", frequencies)
    uneven = {"members": 4, "idle_members": int(ago < 5), "partitions": 12, "unassigned": 0}
    spread = {"partitions_max": 6, "best_partitions_max": 3, "score": 75 if ago < 5 else 100}
    insert_reports(rows, "assignments", [report("invoices", day, of={**AUDIT, **uneven, **spread})])
    advice: dict[str, Any] = {
        "session_verdict": "change" if ago < 4 else "keep",
        "session_present_ms": 6_000,
        "session_advised_ms": 20_000,
        "session_reason": "21 of 21 evicted members rejoined within a minute",
        **dict.fromkeys(("rebalance_verdict", "initial_delay_verdict"), "keep"),
        "session_effect": {"evictions_avoided": 21},
        "rebalance_effect": {},
        "initial_delay_effect": {},
        "back_test": {"is_passed": True},
        "recommendations": [],
    }
    insert_reports(rows, "timeouts", [complete_row("timeout_advice", evicting, day, **advice)])


# -- pictures -----------------------------------------------------------------------------------------------


def take_all(browser: Browser, node: Node, group_id: str, folder: Path) -> None:
    """Open each page, wait for its content, and write its picture."""
    pages = {
        "overview": ("overview", "candidates"),
        "group": (f"groups/{group_id}", "rebalances in the last"),
        "reports": ("reports", "rejoined within a minute"),
        "topic": (f"topics/{TOPIC}", "Groups with a committed offset"),
    }
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", locale="en-GB", timezone_id="UTC"
    )
    page = context.new_page()
    for name, (place, text) in pages.items():
        open_page(page, node, place, text)
        if name == "group":
            page.get_by_role("button", name="24 h", exact=True).click()
            expect(page.get_by_role("main")).to_contain_text("in the last 1 d")
        take(page, folder / f"{name}.png")
    context.close()


def open_page(page: Page, node: Node, place: str, text: str) -> None:
    """Open a page, and wait for a text and for all that it loads."""
    page.goto(f"{node.url}/#/{place}")
    expect(page.get_by_role("main")).to_contain_text(text)
    expect(page.get_by_role("main")).not_to_contain_text("Loading…")


def take(page: Page, path: Path) -> None:
    """Write what the window shows.

    Raises:
        SystemExit: the picture is larger than a page should carry.
    """
    page.screenshot(path=path, animations="disabled")
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > BYTES_MAX:
        sys.exit(f"{path} has more than {BYTES_MAX:,} bytes.")


if __name__ == "__main__":
    main()
