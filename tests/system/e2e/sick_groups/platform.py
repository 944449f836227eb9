"""A node that serves a simulated hour, with its API, commands, SQL and metrics."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any
from urllib.request import urlopen

import psycopg2
import psycopg2.extras
import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.cli.main import main
from muster.settings import ENVIRONMENT_PREFIX, psql_url

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
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as output:
            for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
                patch.delenv(name)
            patch.setenv("MUSTER_URL", self.url)
            patch.setenv("MUSTER_ACTOR", "tests")
            patch.setattr(sys, "argv", ["muster", *arguments, "--json"])
            with pytest.raises(SystemExit) as ended:
                main()
        assert not ended.value.code, output.getvalue()
        return json.loads(output.getvalue())

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
