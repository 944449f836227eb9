"""What was answered survives the promotion of a standby; nodes find it by several hosts, or by a name that changes."""

import os
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from muster.local.embedded_postgres import EmbeddedPostgres
from muster.settings import psql_url
from tests.support.replicated_postgres import Pair, replicated
from tests.system.chaos.invariants import check_invariants
from tests.system.chaos.journal import read_journals
from tests.system.chaos.link import HOST, Link
from tests.system.chaos.platform import Platform, Size, running
from tests.system.chaos.run import wait_until_all_commit

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

SMALL = Size(nodes=2, agents=12, members=6, processes=1, lease_ttl_ms=2_000)
NAME = "muster-database"
OTHER_HOST = "127.0.0.2"


def test_promotion_with_several_hosts_in_the_url_loses_nothing(tmp_path: Path) -> None:
    with replicated(tmp_path) as pair:
        pair.make_synchronous()
        platform = Platform(tmp_path, SMALL, pair.primary, database_url=pair.url)
        with running(platform):
            wait_until_all_commit(platform, time.monotonic())
            pair.fail_over()
            check_after_promotion(platform, pair.standby)


def test_promotion_with_a_host_name_that_changes_loses_nothing(tmp_path: Path) -> None:
    names = tmp_path / "hosts"
    launcher = with_names(names)
    with ExitStack() as links, replicated(tmp_path) as pair:
        pair.make_synchronous()
        old, _ = both_places(pair, links)
        url = make_url(pair.primary.database_url()).set(host=NAME, port=old.port)
        names.write_text(f"{HOST} localhost {NAME}\n")
        platform = Platform(
            tmp_path,
            SMALL,
            pair.primary,
            database_url=url.render_as_string(hide_password=False),
            launcher=launcher,
        )
        with running(platform):
            wait_until_all_commit(platform, time.monotonic())
            old.fall_silent()  # The old address closes no connection, so that nodes have to give theirs up.
            pair.fail_over()
            names.write_text(f"{HOST} localhost\n{OTHER_HOST} {NAME}\n")
            check_after_promotion(platform, pair.standby)


def both_places(pair: Pair, links: ExitStack) -> tuple[Link, Link]:
    """Return links to the primary and the standby, at two addresses with the same port."""
    old = links.enter_context(Link(pair.primary.port).running())
    return old, links.enter_context(Link(pair.standby.port, OTHER_HOST, old.port).running())


def with_names(names: Path) -> tuple[str, ...]:
    """Return the start of a command line whose process resolves names by this file, or skip the test."""
    names.write_text("")
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    script = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    launcher = ("unshare", *user, "--mount", "sh", "-c", script, "sh", str(names))
    if subprocess.run([*launcher, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespaces, in which /etc/hosts is replaced")
    return launcher


def check_after_promotion(platform: Platform, promoted: EmbeddedPostgres) -> None:
    """Check that all nodes and agents work with the promoted server, and every invariant."""
    promoted_s = time.monotonic()
    platform.wait_for(platform.are_nodes_ready, "every node's readiness")
    wait_until_all_commit(platform, promoted_s)
    platform.stop_agents()
    with closing(psycopg2.connect(psql_url(promoted.superuser_url("muster")))) as connection:
        invariants = check_invariants(read_journals(platform.directory), connection)
    assert [invariant for invariant in invariants if invariant.violations] == []
    assert all(invariant.checked for invariant in invariants)
