"""Tests of the mirror against a real Kafka broker."""
