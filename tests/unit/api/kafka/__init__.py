"""Unit tests of problem responses, limits and the conversion of bodies."""
