"""DAGs to read and copy; a test runs each with a real scheduler."""
