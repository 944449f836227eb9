"""Airflow provider for Muster: a connection type, a hook, sensors and an operator for consumer groups."""
