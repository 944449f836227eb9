"""What a group's own history says of its timeouts: values in, advice out, and nothing else is looked at.

Read in this order: `steps` (the timeouts there are to choose from), `evidence` (what history is boiled down to),
`replay` (what another timeout would have done), `cost` (the whole cost of a timeout), `session`, `rejoin` and `startup`
(one piece of advice each), `recommend` (what no timeout changes), `backtest` (whether advice holds on days that it has
not seen), `advise` (all of it), `what_if` (eviction by eviction).

Words:

* A *spurious* eviction is one of a member that was back within the grace: it was alive all the time.
* A *failure* is an eviction of a member that did not come back: the timeout did what it is for.
* A *silence* is how long a member let nothing be heard, whether it was put out meanwhile or not.
"""
