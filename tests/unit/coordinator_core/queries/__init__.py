"""Tests of the pure parts of queries."""
