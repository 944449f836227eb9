#!/bin/sh
# As the official image does on an empty volume: create the cluster and its database, and run the scripts that are mounted.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    umask 077
    echo "$POSTGRES_PASSWORD" > /tmp/password
    initdb --encoding UTF8 --locale C.UTF-8 --username "$POSTGRES_USER" --pwfile /tmp/password --auth-local trust --auth-host scram-sha-256
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl start --wait --options "-c listen_addresses="
    createdb --username "$POSTGRES_USER" "$POSTGRES_DB"
    for script in /docker-entrypoint-initdb.d/*.sh; do
        "$script"
    done
    pg_ctl stop --wait --mode fast
    echo "listen_addresses = '*'" >> "$PGDATA/postgresql.conf"
fi
exec "$@"
