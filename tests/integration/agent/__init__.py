"""The agent against a fake coordinator and against a real node."""
