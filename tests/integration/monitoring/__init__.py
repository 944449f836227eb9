"""Grafana dashboards, Prometheus scrapes and alert rules, run against real data."""
