"""Benchmarks, each compared with a ceiling that is measured in the same run."""
