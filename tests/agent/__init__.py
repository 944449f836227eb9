"""Tests of the agent: its parts by themselves, the whole against a fake coordinator, and against a real node."""
