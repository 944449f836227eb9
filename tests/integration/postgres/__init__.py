"""Tests of the store, the schema, its views and its roles on a real Postgres."""
