"""The parts of the API that need no node."""
