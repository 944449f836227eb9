"""Servers of the core: they parse requests and write responses; the core decides."""
