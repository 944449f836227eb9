"""One suite for every store."""
