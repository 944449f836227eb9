"""Unit tests, which need Python only; the folders mirror the packages."""
