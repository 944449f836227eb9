"""Unit tests of what listeners share."""
