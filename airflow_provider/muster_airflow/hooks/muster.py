"""The hook: calls the nodes of an Airflow connection.

A connection of type `muster` names them:

    host      one or more nodes, separated by commas, each `host` or `host:port`
    port      the port of nodes that name none; default 8080
    schema    http (default) or https
    password  a token; empty sends none
    extra     `verify` (default true), `ca_file`, `client_certificate_file` and `client_key_file` (paths on workers and
              triggerers), `timeout_s` (default 30), `console_url` (the console's address for browsers; default the
              first node)

If there is no connection `muster_default`, the hook uses MUSTER_URL, MUSTER_TOKEN, MUSTER_TLS_CA_FILE,
MUSTER_CLIENT_CERTIFICATE_FILE and MUSTER_CLIENT_KEY_FILE, as Muster's own commands do.
"""

import asyncio
import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from muster_airflow.client import (
    InvalidConnection,
    Json,
    MusterClient,
    RequestRefused,
    group_path,
    segment_of,
    without_password,
)
from muster_airflow.fields import seconds

DEFAULT_PORT = 8080
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
DEFAULT_TIMEOUT_S = 30.0
RETRY_TIMEOUT_S = 15.0
"""How long a request is repeated while no node can answer: longer than shards need to move to another node."""
NOT_FOUND = 404
NODE = re.compile(r"(?:\[[^\s\[\]/]+\]|[^\s\[\]/?#@:]+)(?P<port>:[0-9]+)?")
"""`host` or `host:port`; an IPv6 address is in brackets."""


class MusterHook(BaseHook):
    """Calls the nodes of one connection.

    Methods raise `muster_airflow.client.RequestRefused` if a retry would be refused again, `NodesUnavailable` if no
    node could answer, and `NodesUnusable` if none ever will, unless the connection is corrected. In a coroutine, `await
    hook.aget_conn()` returns a client to await.
    """

    conn_name_attr = "muster_conn_id"
    default_conn_name = "muster_default"
    conn_type = "muster"
    hook_name = "Muster"

    def __init__(
        self, muster_conn_id: str = default_conn_name, *, retry_timeout_s: float = RETRY_TIMEOUT_S, **kwargs: Any
    ) -> None:
        """Name the connection; it is read by the first call.

        Args:
            muster_conn_id: the connection.
            retry_timeout_s: how long a request is repeated while no node can answer; 0 asks each node once.
            kwargs: arguments of `BaseHook`.
        """
        super().__init__(**kwargs)
        self.muster_conn_id = muster_conn_id
        self._retry_timeout_s = retry_timeout_s

    def get_conn(self) -> MusterClient:
        """Return a client of the connection's nodes.

        Raises:
            AirflowNotFoundException: there is no such connection.
            InvalidConnection: it names no node, has a field that is wrong, or names a file that cannot be used.
        """
        return self._client(self._find())

    async def aget_conn(self) -> MusterClient:
        """Return a client of the connection's nodes, in a coroutine; raises as `get_conn` does."""
        try:
            connection = await self.aget_connection(self.muster_conn_id)
        except AirflowNotFoundException as absence:
            self._accept(absence)
            connection = None
        # Certificates are read from files.
        return await asyncio.to_thread(self._client, connection)

    # -- calls ----------------------------------------------------------------------------------------------

    def get(self, path: str) -> Json:
        """Send a GET request to a path of the HTTP API."""
        return asyncio.run(self.get_conn().get(path))

    def post(self, path: str, body: Mapping[str, Any], *, actor: str, idempotency_key: str | None = None) -> Json:
        """Send a POST request to a path of the HTTP API; see `MusterClient.post`."""
        return asyncio.run(self.get_conn().post(path, body, actor=actor, idempotency_key=idempotency_key))

    def describe_group(self, group_id: str) -> Json:
        """Return a group's state, members and settings; a deleted group with history is Dead."""
        return asyncio.run(self.get_conn().get_pages(group_path(group_id), "members"))

    def describe_lag(self, group_id: str) -> Json:
        """Return a group's lag by partition."""
        return asyncio.run(self.get_conn().get_pages(group_path(group_id, "/lag"), "partitions"))

    def reset_offsets(
        self, group_id: str, body: Mapping[str, Any], *, actor: str, idempotency_key: str | None = None
    ) -> Json:
        """Reset the offsets of an Empty group; a dry run unless `body` has `dry_run` false and a `reason`."""
        path = group_path(group_id, "/offsets/reset")
        return self.post(path, body, actor=actor, idempotency_key=idempotency_key)

    def find_change(self, change_id: str) -> Json | None:
        """Return a change of the audit log, or None if there is none."""
        try:
            return self.get(f"/v1/changes/{segment_of(change_id)}")
        except RequestRefused as refusal:
            if refusal.status == NOT_FOUND:
                return None
            raise

    def console_url(self) -> str:
        """Return the console's address for browsers; raises as `get_conn` does."""
        connection = self._find()
        if connection is None:
            return without_password(os.environ.get("MUSTER_URL") or DEFAULT_URL)
        return str(_extra(connection).get("console_url") or _urls(connection)[0])

    def test_connection(self) -> tuple[bool, str]:
        """Return whether a node answers this connection, and its answer, for Airflow's button of this name."""
        try:
            MusterHook(self.muster_conn_id, retry_timeout_s=0).get("/v1/groups?limit=1")
        except Exception as failure:  # noqa: BLE001 - the button shows whatever it is
            return False, str(failure)
        return True, "A node answers, and accepts the token."

    # -- the connection -------------------------------------------------------------------------------------

    def _find(self) -> Connection | None:
        """Return the connection; None: there is none, and the environment counts."""
        try:
            return self.get_connection(self.muster_conn_id)
        except AirflowNotFoundException as absence:
            self._accept(absence)
            return None

    def _accept(self, absence: AirflowNotFoundException) -> None:
        """Raise unless the environment counts without the connection."""
        variable = f"AIRFLOW_CONN_{self.muster_conn_id.upper()}"
        if os.environ.get(variable):
            # Airflow takes what it cannot read for no connection.
            text = f"{variable} cannot be read: several nodes with ports need its JSON form"
            raise InvalidConnection(text) from absence
        if self.muster_conn_id != self.default_conn_name:
            raise absence

    def _client(self, connection: Connection | None) -> MusterClient:
        try:
            return self._client_of_environment() if connection is None else self._client_of(connection)
        except ValueError as failure:
            named = "MUSTER_URL, MUSTER_TOKEN" if connection is None else f"The connection {self.muster_conn_id}"
            raise InvalidConnection(f"{named}: {failure}") from failure

    def _client_of(self, connection: Connection) -> MusterClient:
        extra = _extra(connection)
        return MusterClient(
            _urls(connection),
            token=connection.password,
            verify=_verify(extra),
            timeout_s=seconds("timeout_s", extra.get("timeout_s")) or DEFAULT_TIMEOUT_S,
            retry_timeout_s=self._retry_timeout_s,
        )

    def _client_of_environment(self) -> MusterClient:
        url, token = os.environ.get("MUSTER_URL") or DEFAULT_URL, os.environ.get("MUSTER_TOKEN")
        files = {
            "ca_file": os.environ.get("MUSTER_TLS_CA_FILE"),
            "client_certificate_file": os.environ.get("MUSTER_CLIENT_CERTIFICATE_FILE"),
            "client_key_file": os.environ.get("MUSTER_CLIENT_KEY_FILE"),
        }
        return MusterClient([url], token=token, verify=_verify(files), retry_timeout_s=self._retry_timeout_s)


def _extra(connection: Connection) -> Json:
    try:
        extra = json.loads(connection.extra or "{}")
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise InvalidConnection("extra is no JSON object")
    return extra


def _urls(connection: Connection) -> list[str]:
    """Return the URLs of the nodes, at least one."""
    scheme = connection.schema or "http"
    if scheme not in {"http", "https"}:
        raise InvalidConnection(f"schema: {scheme} is neither http nor https")
    hosts = [host.strip() for host in (connection.host or "").split(",") if host.strip()]
    if not hosts:
        raise InvalidConnection("host: name a node")
    return [_url(scheme, host, connection.port or DEFAULT_PORT) for host in hosts]


def _url(scheme: str, host: str, port: int) -> str:
    """Return a node's URL; `host` may end with a port of its own."""
    node = NODE.fullmatch(host)
    if "@" in host:
        raise InvalidConnection("host: a node has no user and no password; the token is the connection's password")
    if node is None:
        raise InvalidConnection(f"host: {host!r} is neither host nor host:port")
    return f"{scheme}://{host}" if node["port"] else f"{scheme}://{host}:{port}"


def _is_verified(extra: Json) -> bool:
    """Return whether certificates are verified; the extra of a URI has text."""
    verify = extra.get("verify")
    match str("" if verify is None else verify).lower():
        case "" | "true":
            return True
        case "false":
            return False
        case _:
            raise InvalidConnection(f"verify: {verify!r} is neither true nor false")


def _verify(extra: Json) -> ssl.SSLContext | bool:
    ca, certificate = extra.get("ca_file") or None, extra.get("client_certificate_file")
    is_verified = _is_verified(extra)
    if not certificate and not (ca and is_verified):
        return is_verified
    with _naming(f"ca_file {ca}"):
        context = ssl.create_default_context(cafile=ca)
    if not is_verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        key = extra.get("client_key_file") or None
        with _naming(f"client_certificate_file {certificate}" + (f", client_key_file {key}" if key else "")):
            context.load_cert_chain(certificate, key)
    return context


@contextmanager
def _naming(files: str) -> Iterator[None]:
    """Name files that cannot be read, or have no certificate or key: the errors of `ssl` do not."""
    try:
        yield
    except OSError as failure:
        raise InvalidConnection(f"{files}: {failure}") from failure
