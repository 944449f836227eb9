"""One thin file a DAG: when, with what, in which order. Airflow reads the folder; nothing imports the files."""
