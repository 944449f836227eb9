"""Scripts of the repository: what they decide."""
