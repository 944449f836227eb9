"""A node on a standby says so, refuses requests, and serves after the promotion; or it ends, if it wants a primary."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url
from structlog.testing import capture_logs

from muster.errors import UserError
from muster.node.schema import require_schema
from tests.support.http_client import Client, join_body
from tests.support.nodes import running_node
from tests.support.replicated_postgres import Pair, replicated, run_sql
from tests.support.waiting import poll_until

pytestmark = pytest.mark.postgres

READ_ONLY = "the database is read-only: a standby, or default_transaction_read_only is on"


def test_node_on_a_standby_waits_for_the_promotion(tmp_path: Path) -> None:
    with capture_logs() as events, replicated(tmp_path) as pair:
        require_schema(standby_url(pair))
        with running_node(standby_url(pair)) as node, closing(Client(node.url)) as client:
            refused = client.call("GET", "/readyz")
            assert refused.status == 503
            assert f"leases cannot be renewed: {READ_ONLY}" in refused.json["reasons"]
            joining = client.group("g").post("join", join_body())
            assert (joining.status, joining.json["action"]) == (503, "retry")
            run_sql(pair.standby, "SELECT pg_promote()")
            poll_until(lambda: client.call("GET", "/readyz").status == 200)
            poll_until(lambda: client.group("g").post("join", join_body()).code == "MEMBER_ID_REQUIRED")
    reasons = [event["reason"] for event in events if event["event"] == "database_unreachable"]
    assert reasons[0].startswith(f"ReadOnlyServer: {READ_ONLY} (")


@pytest.mark.parametrize("wanted", ["read-write", "primary"])
def test_program_that_wants_a_primary_ends_on_a_standby_with_a_sentence(tmp_path: Path, wanted: str) -> None:
    with replicated(tmp_path) as pair, pytest.raises(UserError, match="are standbys, or read-only: promote one"):
        require_schema(f"{standby_url(pair)}?target_session_attrs={wanted}")


def standby_url(pair: Pair) -> str:
    """Return the URL of the standby, which has the roles and passwords of its primary."""
    return make_url(pair.primary.database_url()).set(port=pair.standby.port).render_as_string(hide_password=False)
