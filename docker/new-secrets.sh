#!/bin/sh
# Create docker/.env with random secrets for compose.yaml, and today's date as the first day of reports.
set -eu
cd "$(dirname "$0")"
umask 077

if [ -e .env ]; then
    echo "docker/.env exists and was not changed: the containers' data depends on its secrets." >&2
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
