"""What several DAGs are made of; Airflow reads none of it as a DAG."""
