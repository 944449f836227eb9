"""Tests of the advice on timeouts, on histories that are known completely."""
