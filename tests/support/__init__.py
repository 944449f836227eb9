"""Helpers that tests of several folders share: nodes, databases, clients, fakes and builders of rows."""
