"""The local platform and its settings, without a database."""
