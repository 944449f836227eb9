"""Tests of the agent's parts that need no network."""
