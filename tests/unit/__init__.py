"""Tests that need nothing but Python; the folders mirror the packages."""
