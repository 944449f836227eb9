"""Advice on a group's timeouts, computed from its history: pure functions.

Read in this order: `steps` (the timeouts to choose from), `evidence` (history as counts), `replay` (what another
timeout would have done), `cost` (the whole cost of a timeout), `session`, `rejoin` and `startup` (one piece of advice
each), `recommend` (changes other than timeouts), `backtest` (tests advice on later days), `advise` (all of it),
`what_if` (eviction by eviction).

Terms:

* *spurious eviction*: the member was back within the grace, so it was alive all the time.
* *failure*: an eviction of a member that did not come back, which is what the timeout is for.
* *silence*: the time without a heartbeat of a member, whether it was evicted meanwhile or not.
"""
