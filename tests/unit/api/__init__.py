"""The parts of the HTTP API that need no node."""
