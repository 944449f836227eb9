"""Scenarios that were checked against Kafka's own coordinator, and what runs them."""
