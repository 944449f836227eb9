#!/bin/sh
# compose.yaml takes every secret from docker/.env, which this script fills with new random ones, once; and today's date,
# from which on reports tell.
set -eu
cd "$(dirname "$0")"
umask 077

if [ -e .env ]; then
    echo "docker/.env is there already, and stays: the containers' data was made with what is in it." >&2
    exit 1
fi

# random_text BYTES: that many random bytes, as text that needs no quoting in a file or a URL; padding cut off.
random_text() {
    head -c "$1" /dev/urandom | base64 -w 0 | tr '+/' '-_' | tr -d '='
}

cat > .env.new <<EOT
POSTGRES_PASSWORD=$(random_text 24)
OWNER_DATABASE_PASSWORD=$(random_text 24)
AIRFLOW_DATABASE_PASSWORD=$(random_text 24)
JOBS_DATABASE_PASSWORD=$(random_text 24)
GRAFANA_DATABASE_PASSWORD=$(random_text 24)
GRAFANA_ADMIN_PASSWORD=$(random_text 24)
CLUSTER_SECRET=$(random_text 48)
AIRFLOW_FERNET_KEY=$(random_text 32)=
AIRFLOW_SECRET_KEY=$(random_text 48)
AIRFLOW_JWT_SECRET=$(random_text 64)
REPORTS_SINCE=$(date -u +%Y-%m-%d)
EOT
mv .env.new .env
echo "docker/.env is written; only you can read it."
