"""Tests by cost: unit, integration, system; CONTRIBUTING.md describes each folder."""
