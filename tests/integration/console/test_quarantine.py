"""The notice of a quarantined group, and the command that reloads it."""

import re
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.settings import psql_url
from tests.support.corrupt_rows import BREAKS, QUICK, SICK, eventually_quarantined, settle, spoil
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.nodes import Node, running_node

COMMAND = f"muster groups reload {SICK}"
COMMANDS = """async (ids) => {
    const folder = document.querySelector('script[src]').src.replace(/[^/]+$/, '');
    const { quarantineNotice } = await import(`${folder}quarantine.js`);
    return ids.map((id) => quarantineNotice(id, 'no reason').querySelector('code').textContent);
}"""


@pytest.fixture
def rows(databases: Databases) -> Iterator[tuple[str, PsycopgConnection]]:
    """Return a database in which the row of one group cannot be loaded, and a connection to it."""
    url = databases.create()
    with running_node(url, **QUICK) as node, closing(Client(node.url)) as client:
        settle(client.group(SICK))
    with closing(psycopg2.connect(psql_url(url))) as connection:
        connection.autocommit = True
        spoil(connection, BREAKS["groups_state"], "groups_state")
        yield url, connection
    databases.drop(url)


def test_quarantined_group_shows_reason_and_reload_command(
    context: BrowserContext, rows: tuple[str, PsycopgConnection]
) -> None:
    url, connection = rows
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    with running_node(url, **QUICK) as node, closing(Client(node.url)) as client:
        eventually_quarantined(client)
        page = context.new_page()
        page.goto(f"{node.url}/#/groups/{SICK}")
        notice = page.get_by_role("alert", name="Quarantine")
        expect(notice).to_contain_text("This group is quarantined")
        expect(notice).to_contain_text("groups.state is 'stable'")
        expect(notice.locator("code")).to_have_text(COMMAND)
        expect(page.get_by_role("heading", level=1)).to_have_text(SICK)
        expect(page.get_by_role("region", name=re.compile("^Members"))).to_contain_text("Not shown while")

        notice.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("Command copied.")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == COMMAND

        with connection.cursor() as cursor:
            cursor.execute("UPDATE groups SET state = 'Stable' WHERE group_id = %s", (SICK,))
        client.ok("POST", f"/v1/groups/{SICK}/reload", {"reason": "repaired"})
        expect(notice).to_have_count(0)
        expect(page.get_by_role("region", name=re.compile("^Members"))).not_to_contain_text("Not shown while")
        page.close()


def test_the_command_is_safe_in_a_shell(page: Page, node: Node) -> None:
    arguments = {
        "billing.eu-1": "billing.eu-1",
        "-x": "-- '-x'",
        "a b; rm 'c'": r"-- 'a b; rm '\''c'\'''",
        "$(d)": "-- '$(d)'",
        "\x03\x1b[201~": r"-- $'\003\033\133\062\060\061\176'",
        "\u202ex\n": r"-- $'\342\200\256\170\012'",
    }
    page.goto(f"{node.url}/")
    commands = page.evaluate(COMMANDS, list(arguments))
    assert commands == [f"muster groups reload {argument}" for argument in arguments.values()]
