"""Tests of the advice on timeouts, with simulated histories."""
