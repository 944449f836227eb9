"""Airflow DAGs, one file each: schedule, params and order of the tasks. Nothing imports these files."""
