"""Deterministic simulation: the real runtime of several nodes with time, network, database and chance from one seed.

Read `world` first (time), then `node` (a process), `database`, `network`, `agents`, `operators` and `chaos`; `watch`
holds the invariants, and `seeds` runs it all. docs/simulation.md describes how to run it and how to read a failure.
"""
