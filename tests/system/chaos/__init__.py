"""Chaos tests: real processes are killed, stopped and cut off, and every promise is checked at the end."""
