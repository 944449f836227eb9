"""Chaos tests: real processes are killed, stopped and cut off, and every invariant is checked at the end."""
