"""The contract tests of stores, run on every store."""
