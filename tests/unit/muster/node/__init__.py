"""Tests of muster/node."""
