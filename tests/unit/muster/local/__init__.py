"""Tests of muster/local."""
