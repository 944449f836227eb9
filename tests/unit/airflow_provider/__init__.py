"""Unit tests of the Airflow provider, without Airflow."""
