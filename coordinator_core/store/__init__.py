"""Where decisions become durable: the interface, its Postgres implementation, and its in-memory twin.

Read in this order: `rows` (what is stored), `interface` (the rules), `ledger` and `projection` (how decisions become
rows and rows a group), `tables`, then `postgres` or `memory`.
"""
