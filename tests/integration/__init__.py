"""Tests of one part against the real systems that it uses."""
