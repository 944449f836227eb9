"""Tests of the report rules, against slow reference implementations."""
