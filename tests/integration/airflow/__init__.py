"""Tests of the DAGs: policies for all of them, and real runs with Spark and Postgres."""
