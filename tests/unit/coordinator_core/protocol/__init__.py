"""Tests of the group protocol, decision by decision and rule by rule."""
