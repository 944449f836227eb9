"""HTTP endpoints: each consists of a signature, request and response types, and one coordinator operation."""
