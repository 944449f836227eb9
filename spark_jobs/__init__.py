"""Spark jobs for maintenance: they read Postgres, apply the core's rules, and write proposals and reports.

Jobs never change a live table. Read in this order: `submit` (starts jobs, names proposals), `jobs/` (one `main` per
job), `transforms/` (DataFrame → DataFrame), `rules/` (the core's rules as column expressions), `jdbc` and `publish`
(input and output).
"""
