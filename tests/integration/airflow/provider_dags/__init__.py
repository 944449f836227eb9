"""DAGs by which tests run the provider."""
