"""Tests of the mirror of a Kafka cluster."""
