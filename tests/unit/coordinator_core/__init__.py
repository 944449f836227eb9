"""The core without a database: protocol, store logic, runtime on the in-memory store."""
