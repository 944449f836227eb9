"""Durable storage of groups: the interface, the Postgres store, and an in-memory store for tests.

Read in this order: `rows` (the stored values), `interface` (the rules), `ledger` and `projection` (decisions to rows,
and rows to groups), `tables`, then `postgres` or `memory`.
"""
