"""Members of each Kafka client library while nodes are restarted, killed and stopped."""
