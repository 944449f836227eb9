#!/bin/sh
# Create what compose.yaml needs and no image contains: random passwords and today's date as the first day of reports in
# docker/.env, and files of tokens in docker/secrets, a folder for each kind of container that reads them.
set -eu
cd "$(dirname "$0")"
umask 077

# What an interrupted run has left: drafts, which were never used, or a last step to do.
if [ -e secrets ] && [ -e .env.new ] && [ ! -e .env ]; then
    mv .env.new .env
    echo "docker/.env and docker/secrets are written; only you can read them."
    exit
fi
rm -rf secrets.new .env.new

if [ -e .env ] || [ -e secrets ]; then
    echo "docker/.env or docker/secrets exists, and nothing was changed: the containers' data depends on them." >&2
    exit 1
fi

# random_text BYTES: that many random bytes, as text that needs no quoting in a file or a URL; padding cut off.
random_text() {
    head -c "$1" /dev/urandom | base64 -w 0 | tr '+/' '-_' | tr -d '='
}

new_token() {
    echo "muster_$(random_text 32)"
}

# entry TOKEN ACTOR ROLE: what a tokens file says of a token.
entry() {
    printf '{"sha256": "%s", "actor": "%s", "role": "%s", "topics": [""]}' \
        "$(printf %s "$1" | sha256sum | cut -d ' ' -f 1)" "$2" "$3"
}

operator=$(new_token)
agent=$(new_token)
airflow=$(new_token)
prometheus=$(new_token)

# Only this user can enter secrets.new; what is in it is readable, since containers have users of their own.
mkdir secrets.new
echo "$operator" > secrets.new/operator-token
echo "$agent" > secrets.new/agent-token
umask 022
mkdir secrets.new/node secrets.new/prometheus secrets.new/spark
cat > secrets.new/node/tokens.json <<EOT
{"tokens": [
  $(entry "$operator" operator operator),
  $(entry "$agent" agent agent),
  $(entry "$airflow" airflow operator),
  $(entry "$prometheus" prometheus viewer)
]}
EOT
echo "$prometheus" > secrets.new/prometheus/token
cat > secrets.new/spark/spark-defaults.conf <<EOT
spark.authenticate true
spark.authenticate.secret $(random_text 48)
spark.network.crypto.enabled true
EOT
umask 077

cat > .env.new <<EOT
POSTGRES_PASSWORD=$(random_text 24)
OWNER_DATABASE_PASSWORD=$(random_text 24)
AIRFLOW_DATABASE_PASSWORD=$(random_text 24)
JOBS_DATABASE_PASSWORD=$(random_text 24)
GRAFANA_DATABASE_PASSWORD=$(random_text 24)
GRAFANA_ADMIN_PASSWORD=$(random_text 24)
CLUSTER_SECRET=$(random_text 48)
AIRFLOW_TOKEN=$airflow
AIRFLOW_FERNET_KEY=$(random_text 32)=
AIRFLOW_SECRET_KEY=$(random_text 48)
AIRFLOW_JWT_SECRET=$(random_text 64)
REPORTS_SINCE=$(date -u +%Y-%m-%d)
EOT
mv secrets.new secrets
mv .env.new .env
echo "docker/.env and docker/secrets are written; only you can read them."
