#!/bin/sh
# Whatever Python 3.11 to 3.14 this machine has, scripts/bootstrap.py is run by it; without one, a sentence says so.
# One that was built with optimizations is preferred, since it runs Muster a quarter faster (docs/benchmarks.md).
set -eu
cd "$(dirname "$0")/.."

is_usable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

# What is in /usr is a distribution's, and none of them builds without optimizations; Debian's does not say so.
is_optimized() {
    "$1" -c 'import ensurepip, sys, sysconfig, venv
built_with = sysconfig.get_config_var("CONFIG_ARGS") or ""
sys.exit(sys.base_prefix != "/usr" and "--enable-optimizations" not in built_with)' >/dev/null 2>&1
}

on_path() {
    for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
        (IFS=: && for folder in $PATH; do [ ! -x "$folder/$name" ] || echo "$folder/$name"; done)
    done
}

usable=
IFS='
'
for candidate in ${PYTHON:-$(on_path)}; do
    is_usable "$candidate" || continue
    usable=${usable:-$candidate}
    if [ -n "${PYTHON:-}" ] || is_optimized "$candidate"; then
        usable=$candidate
        break
    fi
done
[ -z "$usable" ] || exec "$usable" -I scripts/bootstrap.py

if [ -n "${PYTHON:-}" ]; then
    echo "setup: PYTHON=$PYTHON is not a Python from 3.11 to 3.14." >&2
else
    echo "setup: no Python from 3.11 to 3.14 is on the PATH: install one (on Debian and Ubuntu: apt install python3 python3-venv) or name it (make setup PYTHON=...)." >&2
fi
exit 1
