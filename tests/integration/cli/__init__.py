"""The command line against a real node on a real Postgres."""
