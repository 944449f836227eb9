"""Every check says what it saw and what to do about it; one that fails keeps none of the others from being made.

`fine` needs nothing, `look` may be meant so, `wrong` keeps Muster or its maintenance from working.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

import psycopg2
import urllib3

from api.http.tokens import TokensFileError, read_tokens_file
from muster.commands.asking import Node
from muster.commands.database_checks import (
    check_clocks,
    check_incarnation,
    check_leases,
    check_postgres,
    check_schema,
)
from muster.commands.findings import Finding, fine, look, wrong
from muster.commands.output import Table, counted, print_json
from muster.commands.role_checks import check_jobs_role, check_roles
from muster.commands.stored_groups import check_constraints, check_groups
from muster.data_dir import DataDir
from muster.database import urls_in_use
from muster.errors import FAILURE_EXIT_CODE, UserError
from muster.java import find_java
from muster.ports import is_free_port, listener_on
from muster.settings import Settings, load_settings, psql_url
from spark_jobs import submit
from spark_jobs.errors import JobError

CONNECT_TIMEOUT_S: Final = 5
NODE_TIMEOUT_S: Final = 5.0
NODE_SKEW_LOOK_S: Final = 3.0
LOOPBACK: Final = "127.0.0.1"
MISDIRECTED: Final = 421


def check_everything(url: str | None, data_dir: Path | None) -> Iterator[Finding]:
    """Make every check, one after the other; nothing is changed."""
    try:
        settings = load_settings(data_dir=data_dir)
    except UserError as failure:
        yield wrong("settings", failure.sentence, "put the variable right; docs/settings.md has them all")
        return
    yield fine("settings", f"all can be read; the data directory is {settings.data_dir}")
    yield _disk(settings)
    yield from _ports(settings)
    yield from _database(settings)
    yield from _node(url)
    yield _tokens(settings)
    yield _java(settings)
    yield _jdbc_driver()
    yield _airflow(settings)


def print_findings(findings: Iterator[Finding], *, as_json: bool) -> None:
    """Print what was found.

    Raises:
        UserError: something is wrong.
    """
    found = list(findings)
    if as_json:
        print_json({"findings": [each._asdict() for each in found]})
    else:
        table = Table("CHECK", "VERDICT", "SAW", "WHAT TO DO")
        for each in found:
            table.add(*each)
        table.print()
    bad = sum(each.verdict == "wrong" for each in found)
    if bad:
        raise UserError(f"{counted(bad, 'thing is', 'things are')} wrong.", FAILURE_EXIT_CODE)


# -- this machine -----------------------------------------------------------------------------------------


def _disk(settings: Settings) -> Finding:
    place = next(each for each in (settings.data_dir, *settings.data_dir.parents) if each.exists())
    free_mb = shutil.disk_usage(place).free // 2**20
    saw = f"{free_mb:,} MB free at {place}"
    if free_mb < settings.min_free_disk_mb:
        return wrong("disk", saw, f"make room: muster up wants {settings.min_free_disk_mb} MB")
    return fine("disk", saw)


class Port(NamedTuple):
    """A port that Muster wants on this machine."""

    name: str
    host: str
    number: int
    option: str


def _ports(settings: Settings) -> Iterator[Finding]:
    """Look at the ports; while a run uses the data directory, they are its own."""
    holder = DataDir(settings.data_dir).holder()
    node = Port("node's port", settings.http_host, settings.http_port, "--port")
    airflow = Port("Airflow's port", LOOPBACK, settings.airflow_port, "--airflow-port")
    for name, host, number, option in (node, airflow):
        if is_free_port(host, number):
            yield fine(name, f"{number} is free")
        elif holder is not None:
            yield fine(name, f"{number} is taken, and {holder} runs")
        else:
            owner = listener_on(number) or "somebody else's program"
            yield look(name, f"{number} is taken by {owner}", f"stop it, or choose another with {option}")


# -- the database -----------------------------------------------------------------------------------------


DATABASE_CHECKS = (
    check_postgres,
    check_schema,
    check_roles,
    check_jobs_role,
    check_incarnation,
    check_leases,
    check_constraints,
    check_clocks,
)


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        url = psql_url(urls_in_use(settings).owner)
    except UserError as failure:
        yield wrong("Postgres", failure.sentence, "start muster up, or set MUSTER_DATABASE_URL")
        return
    try:
        connection = psycopg2.connect(url, connect_timeout=CONNECT_TIMEOUT_S, application_name="muster-doctor")
    except psycopg2.OperationalError as failure:
        why = str(failure).strip().partition("\n")[0]
        yield wrong("Postgres", why, "start it, or put MUSTER_DATABASE_URL right")
        return
    with closing(connection):
        connection.set_session(readonly=True, autocommit=True)
        for check in DATABASE_CHECKS:
            yield _made(check, connection)
        yield check_groups(url.replace("postgresql://", "postgresql+psycopg2://", 1))


def _made(
    check: Callable[[psycopg2.extensions.connection], Finding], connection: psycopg2.extensions.connection
) -> Finding:
    """Make a check of the database; what it refuses to tell is a finding too."""
    try:
        return check(connection)
    except psycopg2.Error as failure:
        name = check.__name__.removeprefix("check_")
        return wrong(name, str(failure).strip().partition("\n")[0], "run muster migrate if a table is missing")


# -- nodes and tokens -------------------------------------------------------------------------------------


def _node(url: str | None) -> Iterator[Finding]:
    try:
        node = Node(url)
    except UserError as failure:
        yield wrong("node", failure.sentence, "put --url, MUSTER_URL or MUSTER_TOKEN right")
        return
    try:
        reply = urllib3.request("GET", f"{node.url}/readyz", timeout=NODE_TIMEOUT_S, retries=False)
        answer = reply.json()
        if reply.status == MISDIRECTED:
            yield wrong("node", answer["detail"], "name the host in MUSTER_ALLOWED_HOSTS of the node")
            return
        is_ready, reasons = bool(answer["is_ready"]), "; ".join(answer["reasons"])
    except urllib3.exceptions.HTTPError:
        yield wrong("node", f"nobody answers at {node.url}", "start muster up or muster serve, or name one with --url")
    except (ValueError, KeyError, TypeError):
        yield wrong("node", f"what answers at {node.url} is no Muster node", "name one with --url")
    else:
        yield _readiness(node.url, reasons, is_ready=is_ready)
        yield _nodes_clock(reply.headers.get("Date"))


def _readiness(url: str, reasons: str, *, is_ready: bool) -> Finding:
    if not is_ready:
        return wrong("node", f"{url} is not ready: {reasons}", "its log tells more; docs/logs.md says what to do")
    if reasons:
        return look("node", f"{url} is ready, and warns: {reasons}", "docs/logs.md says what to do")
    return fine("node", f"{url} is ready")


def _nodes_clock(date: str | None) -> Finding:
    """Compare the node's clock with this machine's, by the second, which is all that its answer tells."""
    try:
        skew_s = parsedate_to_datetime(date or "").timestamp() - time.time()
    except ValueError:
        return look("node's clock", "the node does not tell the time", "see whether a proxy takes the header Date away")
    saw = f"it is within {max(1, ceil(abs(skew_s)))} s of this machine's"
    if abs(skew_s) > NODE_SKEW_LOOK_S:
        return look("node's clock", saw, "set them by NTP")
    return fine("node's clock", saw)


def _tokens(settings: Settings) -> Finding:
    if settings.tokens_file is None:
        return fine("tokens", "none: nodes are open, on this machine only")
    try:
        tokens = read_tokens_file(settings.tokens_file)
    except TokensFileError as refusal:
        return wrong("tokens", str(refusal), "put the file right; docs/security.md has its form")
    if settings.cluster_secret is None:
        return wrong("tokens", "MUSTER_CLUSTER_SECRET is not set", "set it, to the same on every node")
    over = sorted(each.expires_at for each in tokens.values() if each.expires_at and each.is_over_soon(time.time()))
    if over:
        saw = f"{counted(len(over), 'token')} of {len(tokens)} expired or will within a week, the first at {over[0]}"
        return look("tokens", saw, "make new ones with muster token new, and take these out of the file")
    return fine("tokens", f"{settings.tokens_file} holds {counted(len(tokens), 'token')}")


# -- maintenance ------------------------------------------------------------------------------------------


def _java(settings: Settings) -> Finding:
    if find_spec("pyspark") is None:
        return look("Java", "Spark is not installed here", "install muster[platform] where jobs are to run")
    try:
        return fine("Java", f"Spark would use {find_java(settings.data_dir)}")
    except UserError as failure:
        return wrong("Java", failure.sentence, "install Java 17 or newer, or set JAVA_HOME")


def _jdbc_driver() -> Finding:
    try:
        return fine("JDBC driver", f"Spark would use {submit.find_jdbc_jar()}")
    except JobError as failure:
        return wrong("JDBC driver", str(failure), "set MUSTER_JDBC_JAR to the PostgreSQL driver's jar")


def _airflow(settings: Settings) -> Finding:
    try:
        installed = f"Airflow {version('apache-airflow')}"
    except PackageNotFoundError:
        return look("Airflow", "it is not installed here", "install muster[platform], or schedule the jobs otherwise")
    holder = DataDir(settings.data_dir).holder()
    url = (holder and holder.airflow_url) or f"http://{LOOPBACK}:{settings.airflow_port}"
    try:
        health = urllib3.request("GET", f"{url}/api/v2/monitor/health", timeout=NODE_TIMEOUT_S, retries=False).json()
        parts = {
            name: (health.get(name) or {}).get("status") for name in ("metadatabase", "scheduler", "dag_processor")
        }
    except (urllib3.exceptions.HTTPError, ValueError, AttributeError):
        saw = f"{installed} does not answer at {url}"
        return look("Airflow", saw, "muster up starts it; without it nothing expires")
    ill = [name for name, status in parts.items() if status != "healthy"]
    if ill:
        return wrong(
            "Airflow", f"{installed}: not healthy: {', '.join(ill)}", f"look into {settings.data_dir / 'logs'}"
        )
    return fine("Airflow", f"{installed} is healthy at {url}")
