"""What holds for every DAG, and each DAG run for real: its own tasks, real Spark, a real Postgres."""
