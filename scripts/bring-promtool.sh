#!/bin/sh
# Prometheus' own checker, for the tests of alerts and dashboards: unpacked from Debian's package into .tools, where no
# daemon is started. Whoever has promtool on the PATH needs nothing of this.
set -eu
cd "$(dirname "$0")/.."

if command -v promtool >/dev/null 2>&1 || [ -x .tools/prometheus/usr/bin/promtool ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "promtool: install Prometheus, so that promtool is on the PATH." >&2
    exit 1
fi

echo "promtool: unpacking Debian's package prometheus into .tools"
mkdir -p .tools
unpacking=$(mktemp -d "$PWD/.tools/unpacking.XXXXXX")
trap 'rm -rf "$unpacking"' EXIT
cd "$unpacking"
if ! apt-get download -qq prometheus >/dev/null 2>&1; then
    as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    $as_root apt-get update -qq
    apt-get download -qq prometheus
fi
dpkg -x prometheus_*.deb prometheus
cd ../..
rm -rf .tools/prometheus
mv "$unpacking/prometheus" .tools/prometheus
