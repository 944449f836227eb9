#!/bin/sh
# Airflow has a role and a database of its own beside Muster's, and Spark jobs log in as a member of muster_jobs, which
# the migrations give its rights. The Postgres image runs this once, on an empty volume.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=airflow_password="$AIRFLOW_DATABASE_PASSWORD" --set=jobs_password="$JOBS_DATABASE_PASSWORD" <<'SQL'
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
CREATE ROLE muster_jobs NOLOGIN;
CREATE ROLE spark LOGIN PASSWORD :'jobs_password' IN ROLE muster_jobs;
SQL
