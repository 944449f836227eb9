"""Advice on timeouts, on histories of which everything is known."""
