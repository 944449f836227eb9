#!/bin/sh
# Whatever Python 3.11 to 3.14 this machine has, scripts/bootstrap.py is run by it; without one, a sentence says so.
set -eu
cd "$(dirname "$0")/.."

is_usable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
    if is_usable "$candidate"; then
        exec "$candidate" -I scripts/bootstrap.py
    fi
done

if [ -n "${PYTHON:-}" ]; then
    echo "setup: PYTHON=$PYTHON is not a Python from 3.11 to 3.14." >&2
else
    echo "setup: no Python from 3.11 to 3.14 is on the PATH: install one (on Debian and Ubuntu: apt install python3 python3-venv) or name it (make setup PYTHON=...)." >&2
fi
exit 1
