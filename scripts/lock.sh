#!/bin/sh
# requirements.lock is what pyproject.toml's extras and requirements.in resolve to on Linux, with a hash for every file;
# an image's lock is the part of it that the image needs.
# Pins that still fit are kept; `make lock LOCK_ARGS=--upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."

draft=$(mktemp)
trap 'rm -f "$draft"' EXIT

# resolve LOCK ARGUMENTS...: write one lock, or leave it as it was when the new one would name an address.
resolve() {
    lock=$1
    shift
    [ ! -f "$lock" ] || cp "$lock" "$draft"
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
        --override requirements-overrides.txt "$@" --output-file "$draft"
    # Every line is for CPython on Linux (see [tool.uv]), so no line has to say it.
    sed -i -e "s/ and platform_python_implementation == 'CPython'//" -e "s/ and sys_platform == 'linux'//" \
        -e "s/ ; platform_python_implementation == 'CPython'//" -e "s/ ; sys_platform == 'linux'//" "$draft"
    if grep -nE '://|find-links| @ |file:' "$draft"; then
        echo "lock: $lock would name an address (above), so it stays as it was." >&2
        exit 1
    fi
    cat "$draft" > "$lock"
    : > "$draft"
}

resolve requirements.lock --extra platform --extra dev --group pyproject.toml:build pyproject.toml requirements.in "$@"
resolve docker/requirements-build.lock --group pyproject.toml:build --constraint requirements.lock
for image in "node --extra server --extra kafka --extra mirror" "airflow --extra airflow" "spark --extra spark"; do
    # shellcheck disable=SC2086 - the words after the name are arguments
    resolve "docker/requirements-${image%% *}.lock" ${image#* } --constraint requirements.lock pyproject.toml
done
