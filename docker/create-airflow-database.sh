#!/bin/sh
# Airflow has a role and a database of its own beside Muster's; the Postgres image runs this once, on an empty volume.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=password="$AIRFLOW_DATABASE_PASSWORD" <<'SQL'
CREATE ROLE airflow LOGIN PASSWORD :'password';
CREATE DATABASE airflow OWNER airflow;
SQL
