"""The HTTP front door, version 1.

Read in this order: `edge` (what happens to every request), `paths`, `reading` and `problems` (what is read and what
is refused), `express` and `framework` (the two lanes behind the edge), `endpoints` (what can be asked), `app` (all of
it put together), `server` (the socket).

Later endpoints have their place in `endpoints`: the ledger (rebalances, transitions, assignments), changes and undo,
resets, tuning, reports. Tokens are the edge's business, beside the request id.
"""
