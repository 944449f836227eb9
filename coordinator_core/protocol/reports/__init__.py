"""The rules that reports go by: pure functions over what is told of one group, without clock, chance or library.

Read `fair_loads` (what is the best that subscriptions allow) and `fewest_moves` (what it takes to get there) first,
then `balance`, which audits an assignment by them. `frequency` has the rules on storms, spurious evictions and groups
that never settle, of which jobs have a twin in column expressions.
"""
