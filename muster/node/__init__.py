"""The process of a node: schema, limits, and serving from a bound socket to a graceful stop."""
