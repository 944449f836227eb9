"""The classic consumer-group protocol as pure values: nothing here reads a clock, draws a number, or waits.

Read in this order: `states` (the table), `requests` and `replies` (what comes in and goes out), `records` (the
only changes there are), `group` (the fold of records), `decide` (request → decision), `rebalance` (the engine
that decisions share), `ledger` (what history keeps of it).
"""
