"""Tests of the benchmarks' own arithmetic and encoding."""
