"""Tests of the agent with a fake coordinator and with a real node."""
