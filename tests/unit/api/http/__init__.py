"""Unit tests of problem responses, deadlines, limits and the conversion of bodies."""
