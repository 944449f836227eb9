"""Durable storage of groups: the interface, and the Postgres store.

Read in this order: `rows` (the stored values), `interface` (the rules), `ledger` and `projection` (decisions to rows,
and rows to groups), `tables`, then `postgres`.
"""
