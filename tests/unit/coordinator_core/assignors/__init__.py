"""Tests of the assignors: by example, by scenario and by law."""
