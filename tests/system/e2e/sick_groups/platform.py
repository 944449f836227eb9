"""A node that serves a simulated hour, with its API, commands, SQL and metrics."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.request import urlopen

import psycopg2
import psycopg2.extras
from prometheus_client.parser import text_string_to_metric_families

from muster.settings import psql_url

PATIENCE_S = 600.0

Json = Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Platform:
    """A node that serves what happened in the hour, and its database."""

    url: str
    database_url: str
    began_at: datetime
    ended_at: datetime

    def stood_still_s(self, since_minute: int) -> float:
        """Return how long ago a minute of the hour was."""
        return (datetime.now(UTC) - self.began_at).total_seconds() - since_minute * 60

    def api(self, path: str) -> Json:
        """Return the response of the API."""
        with urlopen(self.url + path, timeout=PATIENCE_S) as response:
            return json.load(response)

    def command(self, *arguments: str) -> Json:
        """Return what the command line prints for programs."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        ran = subprocess.run(
            [sys.executable, "-m", "muster", *arguments, "--json"],
            env={**environment, "MUSTER_URL": self.url, "MUSTER_ACTOR": "tests"},
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def sql(self, statement: str, *values: object) -> list[Row]:
        """Return rows by column."""
        with (
            closing(psycopg2.connect(psql_url(self.database_url))) as connection,
            connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor,
        ):
            cursor.execute(statement, values)
            return [dict(row) for row in cursor.fetchall()]

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Return the samples of a scrape in full detail, by name and labels."""
        with urlopen(self.url + "/metrics?detail=partition", timeout=PATIENCE_S) as response:
            text = response.read().decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
