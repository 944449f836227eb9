"""Spark jobs read Postgres, decide with the core's rules, and propose; they never change a live table.

Read in this order: `submit` (what starts a job and what its proposal is called), `jobs/` (one thin `main` a job),
`transforms/` (DataFrame → DataFrame, nothing else), `rules/` (the core's rules as column expressions), `jdbc` and
`publish` (the two edges).
"""
