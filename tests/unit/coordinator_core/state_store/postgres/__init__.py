"""Tests of the parts of the Postgres store that need no server."""
