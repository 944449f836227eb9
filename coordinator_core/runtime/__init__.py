"""The driver of the protocol: one asyncio loop that owns shards, carries decisions out, and keeps time.

Read in this order: `hosting` (a group and what a node keeps beside it), `shard` (decided, stored, said), `writer`
(group commit), `timers`, `ownership` (leases), `surroundings` (settings and catalogue), `maintenance`, and
`coordinator`, which the front doors call.
"""
