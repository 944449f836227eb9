"""The real runtime of several nodes in a world whose time, network, database and chance come from one seed.

Read `world` first (time), then `node` (a process), `database`, `network`, `agents`, `operators` and `chaos`; `watch`
holds the invariants, and `seeds` runs it all. docs/simulation.md tells how to run it and how to read a failure.
"""
