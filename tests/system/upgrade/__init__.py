"""Upgrades from the last release."""
