#!/bin/sh
# Create the database roles: nodes use the owner of Muster's database, Spark jobs a member of muster_jobs, Grafana a
# member of muster_reader (migrations grant their rights), and Airflow a role and database of its own. None is a superuser,
# and each connects to its own database only. The Postgres image runs this once, on an empty volume.
set -eu
psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=owner_password="$OWNER_DATABASE_PASSWORD" \
    --set=airflow_password="$AIRFLOW_DATABASE_PASSWORD" --set=jobs_password="$JOBS_DATABASE_PASSWORD" \
    --set=grafana_password="$GRAFANA_DATABASE_PASSWORD" <<'SQL'
CREATE ROLE muster_owner LOGIN PASSWORD :'owner_password';
ALTER DATABASE muster OWNER TO muster_owner;
CREATE ROLE airflow LOGIN PASSWORD :'airflow_password';
CREATE DATABASE airflow OWNER airflow;
CREATE ROLE muster_jobs NOLOGIN;
CREATE ROLE spark LOGIN PASSWORD :'jobs_password' IN ROLE muster_jobs;
CREATE ROLE muster_reader NOLOGIN;
CREATE ROLE grafana LOGIN PASSWORD :'grafana_password' IN ROLE muster_reader;
ALTER ROLE grafana SET statement_timeout = '20s';
ALTER ROLE grafana SET default_transaction_read_only = on;
REVOKE CONNECT, TEMPORARY ON DATABASE muster, airflow, postgres, template1 FROM PUBLIC;
GRANT CONNECT ON DATABASE muster TO muster_jobs, muster_reader;
REVOKE EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea) FROM PUBLIC;
SQL
