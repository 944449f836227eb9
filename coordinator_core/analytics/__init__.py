"""Analytics: the rules of reports and of advice, as pure functions of one group's history or state.

Read `best_loads` (the best loads that subscriptions allow) and `fewest_moves` (the moves that they take) first, then
`balance`, which audits an assignment with them. `frequency` has the rules on rebalance churn, spurious evictions and
groups that never settle; jobs have the same rules as column expressions. `advice` has the advice on timeouts.
"""
