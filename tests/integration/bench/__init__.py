"""Tests that run every benchmark with tiny sizes; results are not evaluated."""
