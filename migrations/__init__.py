"""History of the schema: what has landed here never changes, and imports nothing that can change under it."""
