"""Conformance scenarios, checked against Kafka's own coordinator, and the code that runs them."""
