"""Tests of the mirror without Kafka."""
