"""The classic consumer-group protocol as pure functions and values, without I/O, clock or randomness.

Read in this order: `states` (the transition table), `requests` and `responses`, `records` (the only changes of a
group), `group` (the fold of records), `decide` (request → decision), `rebalance` (steps that several decisions
share).
"""
