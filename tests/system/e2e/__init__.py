"""End-to-end tests: rebalance stories, examples, reported numbers, and `muster up`."""
