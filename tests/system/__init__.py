"""The whole platform: conformance scenarios, simulation, chaos, end-to-end tests."""
