"""The command line and the local platform, with real processes and a real Postgres."""
