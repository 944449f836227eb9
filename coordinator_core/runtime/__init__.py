"""The asyncio runtime of a node: it owns shards, applies the protocol's decisions, and fires timers.

Read in this order: `group_context` (a group in memory), `shard` (decide, store, reply), `writer` (write batching),
`timers`, `shard_ownership` (leases), `metadata_cache` (settings and topic metadata), `maintenance`, and `coordinator`,
which the HTTP server calls.
"""
