"""Tests of the Spark jobs: transforms on rows, rules against their pure versions, and real Postgres."""
