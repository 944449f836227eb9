"""Queries against a real Postgres."""
