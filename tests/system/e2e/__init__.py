"""Whole flows: stories of rebalances, examples, reported numbers, and `muster up`."""
