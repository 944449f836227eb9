"""Tests of the runtime on real threads and the in-memory store."""
