"""Tests of the Kafka listener on real nodes."""
