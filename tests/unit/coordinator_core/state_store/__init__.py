"""Tests of the projection of decisions to rows, without a database."""
