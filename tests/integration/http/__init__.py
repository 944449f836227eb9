"""Tests of the HTTP API with a real node, a real database, and a client that sends requests byte for byte."""
