"""The command `muster doctor` and its checks of this machine, of a node and of the maintenance.

Each check reports what it found and what to do; a failing one does not stop the others. `ok` needs no action,
`warning` may be intended, `error` prevents Muster or its maintenance from working.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import psycopg2
import urllib3
from psycopg2.errorcodes import INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE

from api.shared.tokens import TokensFileError, read_tokens_file
from muster.cli.command_tree import command_group
from muster.cli.crash import command_settings
from muster.cli.doctor.audit import check_audit_log
from muster.cli.doctor.database import (
    DOCUMENTED,
    SKEW_WRONG_S,
    WHO_LOCKS,
    check_clocks,
    check_incarnation,
    check_jobs_role,
    check_leases,
    check_locks,
    check_offset_log,
    check_offsets,
    check_postgres,
    check_roles,
    check_schema,
    has_own_tables,
)
from muster.cli.doctor.nodes import check_nodes
from muster.cli.doctor.results import CheckResult, error, ok, warning
from muster.cli.doctor.stored_rows import check_constraints, check_groups
from muster.cli.doctor.stored_tokens import check_issued_tokens
from muster.cli.options import DataDirOption, JsonOption, UrlOption
from muster.client_tls import client_ssl_context
from muster.data_dir import DataDir, Holder
from muster.display import counted
from muster.errors import FAILURE_EXIT_CODE, UserError, database_advice
from muster.local.database import urls_in_use
from muster.local.java import find_java
from muster.local.ports import bind_failure, is_wrong_host, listener_on
from muster.misspelled_settings import misspelled
from muster.node.tls import read_tls, unencrypted
from muster.node_client import FORBIDDEN, UNAUTHORIZED, ApiError, NodeClient, client_token, root_cause
from muster.output import Table, print_json
from muster.settings import Settings, psql_url
from spark_jobs import submit
from spark_jobs.errors import JobError

app = command_group("Check everything.")


@app.command()
def doctor(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Check the installation and report problems.

    Checks the settings, the disk, the ports, Postgres, its locks, the schema, the database's roles, the incarnation,
    the leases, the nodes' addresses, the constraints, the offsets, the clocks, the audit log, the issued tokens, the
    stored groups, a node, MUSTER_TOKEN, the tokens file, TLS, Java, the JDBC driver and Airflow, and changes nothing.
    The exit code is 1 if a check fails.
    """
    found = list(run_checks(url, data_dir))
    if as_json:
        print_json({"checks": [each._asdict() for each in found]})
    else:
        table = Table("CHECK", "STATUS", "MESSAGE", "ADVICE")
        for each in found:
            table.add(*each)
        table.print()
    bad = sum(each.status == "error" for each in found)
    if bad:
        raise UserError(f"{counted(bad, 'check')} failed.", FAILURE_EXIT_CODE)


CONNECT_TIMEOUT_S: Final = 5
LOCK_TIMEOUT_MS: Final = 2_000
NODE_TIMEOUT_S: Final = 5.0
NODE_SKEW_LOOK_S: Final = 3.0
LOOPBACK: Final = "127.0.0.1"
MISDIRECTED_REQUEST: Final = 421


def run_checks(url: str | None, data_dir: Path | None) -> Iterator[CheckResult]:
    """Run every check in order; none changes anything."""
    try:
        settings = command_settings(data_dir=data_dir)
    except UserError as failure:
        yield error("settings", failure.sentence, "correct the variable; docs/settings.md has them all")
        return
    wrong = "; ".join(f"{name} is no setting, and {meant} is one" for name, meant in misspelled(os.environ))
    if wrong:
        yield warning("settings", wrong, "correct the name, for nodes, too; docs/settings.md has them all")
    else:
        yield ok("settings", f"all can be read; the data directory is {settings.data_dir}")
    yield _disk(settings)
    yield from _ports(settings)
    yield from _database(settings)
    yield from _node(url)
    yield _tokens(settings)
    yield from _tls(settings)
    yield from _spark(settings)
    yield _airflow(settings)


# -- this machine -----------------------------------------------------------------------------------------


def _disk(settings: Settings) -> CheckResult:
    place = next(each for each in (settings.data_dir, *settings.data_dir.parents) if os.access(each, os.F_OK))
    free_mb = shutil.disk_usage(place).free // 2**20
    message = f"{free_mb:,} MB free at {place}"
    if free_mb < settings.min_free_disk_mb:
        return error("disk", message, f"make room: muster up wants {settings.min_free_disk_mb} MB")
    return ok("disk", message)


def _holder(settings: Settings) -> Holder | None:
    """Return the run of the data directory; None also if that cannot be read, which the check of Postgres reports."""
    try:
        return DataDir(settings.data_dir).holder()
    except UserError:
        return None


class Port(NamedTuple):
    """A port that Muster listens on, and the option that changes it."""

    name: str
    host: str
    number: int
    option: str


def _ports(settings: Settings) -> Iterator[CheckResult]:
    """Check that the ports are free, or used by the run of this data directory."""
    holder = _holder(settings)
    node = Port("node's port", settings.http_host, settings.http_port, "--port")
    airflow = Port("Airflow's port", LOOPBACK, settings.airflow_port, "--airflow-port")
    for name, host, number, option in (node, airflow):
        failure = bind_failure(host, number)
        if failure is None:
            yield ok(name, f"{number} is free")
        elif is_wrong_host(failure):
            message = f"no server can listen on {host} ({failure.strerror})"
            yield error(name, message, "name an address of this machine in MUSTER_HTTP_HOST")
        elif holder is not None:
            yield ok(name, f"{number} is taken, and {holder} runs")
        else:
            owner = listener_on(number) or "a process of another user"
            advice = f"unless it is to be there, as a node that runs, stop it, or choose another port with {option}"
            yield warning(name, f"{number} is taken by {owner}", advice)


# -- the database -----------------------------------------------------------------------------------------


TABLE_CHECKS = (
    check_roles,
    check_jobs_role,
    check_incarnation,
    check_leases,
    check_nodes,
    check_offset_log,
    check_constraints,
    check_offsets,
    check_clocks,
    check_audit_log,
    check_issued_tokens,
)


def _database(settings: Settings) -> Iterator[CheckResult]:
    try:
        url = psql_url(urls_in_use(settings).owner)
    except UserError as failure:
        yield error("Postgres", failure.sentence, "start muster up, or set MUSTER_DATABASE_URL")
        return
    try:
        yield from _in_database(url)
    except psycopg2.Error as failure:
        reason = str(failure).strip().partition("\n")[0]
        yield error("Postgres", reason, database_advice(reason))


def _in_database(url: str) -> Iterator[CheckResult]:
    """Yield the results of the checks in the database.

    Raises:
        psycopg2.Error: it does not answer, or not any more.
    """
    connection = psycopg2.connect(url, connect_timeout=CONNECT_TIMEOUT_S, application_name="muster-doctor")
    with closing(connection):
        connection.set_session(readonly=True, autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
        yield _run_check(check_postgres, connection)
        yield _run_check(check_locks, connection)
        yield _run_check(check_schema, connection)
        if not has_own_tables(connection):
            return
        for check in TABLE_CHECKS:
            yield _run_check(check, connection)
        yield check_groups(url.replace("postgresql://", "postgresql+psycopg2://", 1))


ADVICE: Final = {LOCK_NOT_AVAILABLE: WHO_LOCKS, INSUFFICIENT_PRIVILEGE: DOCUMENTED}
"""What to do about a failed query, by SQLSTATE."""


def _run_check(
    check: Callable[[psycopg2.extensions.connection], CheckResult], connection: psycopg2.extensions.connection
) -> CheckResult:
    """Run a check on the database; a failed query is an error result.

    Raises:
        psycopg2.Error: the connection is lost.
    """
    try:
        return check(connection)
    except psycopg2.Error as failure:
        if connection.closed:
            raise
        name = check.__name__.removeprefix("check_")
        advice = ADVICE.get(failure.pgcode or "", "run muster migrate if a table is missing")
        return error(name, str(failure).strip().partition("\n")[0], advice)


# -- nodes and tokens -------------------------------------------------------------------------------------


def _node(url: str | None) -> Iterator[CheckResult]:
    try:
        node = NodeClient(url)
    except UserError as failure:
        yield error("node", failure.sentence, "correct --url, MUSTER_URL or MUSTER_TOKEN")
        return
    try:
        with urllib3.PoolManager(ssl_context=client_ssl_context()) as pool:
            reply = pool.request("GET", f"{node.url}/readyz", timeout=NODE_TIMEOUT_S, retries=False)
        answer = reply.json()
        if reply.status == MISDIRECTED_REQUEST:
            yield error("node", answer["detail"], "name the host in MUSTER_ALLOWED_HOSTS of the node")
            return
        is_ready, reasons = bool(answer["is_ready"]), "; ".join(answer["reasons"])
    except urllib3.exceptions.HTTPError as failure:
        message = f"no node answers at {node.url} ({root_cause(failure)})"
        yield error("node", message, "start muster up or muster serve, or name one with --url")
    except (ValueError, KeyError, TypeError):
        yield error("node", f"what answers at {node.url} is not a Muster node", "name one with --url")
    else:
        yield _readiness(node.url, reasons, is_ready=is_ready)
        yield _nodes_clock(reply.headers.get("Date"))
        yield from _token(node.url)


def _readiness(url: str, reasons: str, *, is_ready: bool) -> CheckResult:
    if not is_ready:
        return error("node", f"{url} is not ready: {reasons}", "see its log and docs/logs.md")
    if reasons:
        return warning("node", f"{url} is ready, and warns: {reasons}", "docs/logs.md says what to do")
    return ok("node", f"{url} is ready")


def _token(url: str) -> Iterator[CheckResult]:
    """Yield whether the node accepts the token of MUSTER_TOKEN, or needs one."""
    try:
        NodeClient(url, retry_timeout_s=0, timeout_s=NODE_TIMEOUT_S).get("/v1/groups", limit=1)
    except ApiError as refusal:
        if refusal.status == UNAUTHORIZED:
            level = error if client_token() else warning
            yield level("token", f"the node refuses requests: {refusal.detail}", "make one: docs/security.md")
        if refusal.status != FORBIDDEN:
            return
    except UserError:
        return
    if client_token():
        yield ok("token", "the node accepts MUSTER_TOKEN")


def _nodes_clock(date: str | None) -> CheckResult:
    """Compare the node's clock with this machine's, in seconds, the resolution of the Date header."""
    try:
        skew_s = parsedate_to_datetime(date or "").timestamp() - time.time()
    except ValueError:
        return warning(
            "node's clock", "the response has no Date header", "check whether a proxy removes the Date header"
        )
    message = f"it is about {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
    if abs(skew_s) > SKEW_WRONG_S:
        return error("node's clock", message, "synchronize them by NTP: nodes refuse what such a node forwards")
    if abs(skew_s) > NODE_SKEW_LOOK_S:
        return warning("node's clock", message, "synchronize them by NTP")
    return ok("node's clock", message)


def _tokens(settings: Settings) -> CheckResult:
    if not settings.has_tokens:
        return ok("tokens", "none: a node with these settings is open, on this machine only")
    try:
        tokens = {} if settings.tokens_file is None else read_tokens_file(settings.tokens_file)
    except TokensFileError as refusal:
        return error("tokens", str(refusal), "correct the file; docs/security.md has its form")
    if settings.cluster_secret is None:
        return error("tokens", "MUSTER_CLUSTER_SECRET is not set", "set it, to the same on every node")
    if settings.tokens_file is None:
        return ok("tokens", "nodes read them from the database; muster tokens list shows them")
    over = sorted(each.expires_at for each in tokens.values() if each.expires_at and each.expires_soon(time.time()))
    if over:
        message = (
            f"{counted(len(over), 'token')} of {len(tokens)} expired or will within a week, the first at {over[0]}"
        )
        return warning("tokens", message, "make new ones with muster token new, and take these out of the file")
    return ok("tokens", f"{settings.tokens_file} holds {counted(len(tokens), 'token')}")


def _tls(settings: Settings) -> Iterator[CheckResult]:
    for found in unencrypted(settings):
        message = f"{found.setting} is not encrypted: {found.reason}"
        yield warning("encryption", message, "docs/security.md says how to encrypt it")
    try:
        tls = read_tls(settings)
    except UserError as failure:
        yield error("TLS", failure.sentence, "correct the file")
        return
    if tls.expires_at_s is None:
        yield ok("TLS", "none: nodes speak plain HTTP")
        return
    message = f"the certificate of nodes expires at {datetime.fromtimestamp(tls.expires_at_s, UTC).isoformat()}"
    yield warning("TLS", message, "renew it, and replace the files") if tls.is_expiring else ok("TLS", message)


# -- maintenance ------------------------------------------------------------------------------------------


def _spark(settings: Settings) -> Iterator[CheckResult]:
    if find_spec("pyspark") is None:
        yield warning("Java", "Spark is not installed here", "install Muster's extra platform where jobs are to run")
        return
    yield _java(settings)
    yield _jdbc_driver()


def _java(settings: Settings) -> CheckResult:
    try:
        return ok("Java", f"Spark would use {find_java(settings.data_dir)}")
    except UserError as failure:
        return error("Java", failure.sentence, "install Java 17 or newer, or set JAVA_HOME")
    except OSError as failure:
        return error("Java", str(failure), "choose another directory with --data-dir")


def _jdbc_driver() -> CheckResult:
    try:
        return ok("JDBC driver", f"Spark would use {submit.find_jdbc_jar()}")
    except JobError as failure:
        return error("JDBC driver", str(failure), "set MUSTER_JDBC_JAR to the PostgreSQL driver's jar")


def _airflow(settings: Settings) -> CheckResult:
    try:
        installed = f"Airflow {version('apache-airflow')}"
    except PackageNotFoundError:
        return warning(
            "Airflow", "it is not installed here", "install Muster's extra platform, or schedule the jobs otherwise"
        )
    holder = _holder(settings)
    url = (holder and holder.airflow_url) or f"http://{LOOPBACK}:{settings.airflow_port}"
    try:
        health = urllib3.request("GET", f"{url}/api/v2/monitor/health", timeout=NODE_TIMEOUT_S, retries=False).json()
        parts = {
            name: (health.get(name) or {}).get("status") for name in ("metadatabase", "scheduler", "dag_processor")
        }
    except (urllib3.exceptions.HTTPError, ValueError, AttributeError):
        message = f"{installed} does not answer at {url}"
        return warning("Airflow", message, "muster up starts it; without it nothing expires")
    ill = [name for name, status in parts.items() if status != "healthy"]
    if ill:
        return error(
            "Airflow", f"{installed}: not healthy: {', '.join(ill)}", f"look into {settings.data_dir / 'logs'}"
        )
    return ok("Airflow", f"{installed} is healthy at {url}")
