"""Queries: what people, reports and metrics ask of the database; one function and one result type each.

A query is a function whose first argument is a `Transaction`. `Queries` runs it on threads and connections of its own,
within a time limit, so a slow query delays no request of a consumer. Any node answers, as nothing depends on the owner
of a group.

Lists are paged, the newest first. A page starts after a *cursor*: the values of the last row that the order uses. So
pages neither skip nor repeat rows when rows are added in between. A query of history names the column by which its
table is partitioned, so that Postgres skips other days. The columns of a SELECT are in the order of the fields of its
result.
"""
