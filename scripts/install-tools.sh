#!/bin/sh
# Install what is missing of the named: make, git, venv, curl, chromium, libatomic (for Playwright), promtool, pgbouncer,
# haproxy, kcat, podman (with what it needs to build and to connect containers), mmdebstrap.
#
# Packages are installed by apt-get, as root or with a sudo that asks for no password. Prometheus, which brings promtool,
# is only unpacked into .tools, so that no daemon starts. A program that cannot be installed is reported in one sentence;
# with CI=true the script then fails, otherwise the tests that need the program are skipped.
set -eu
cd "$(dirname "$0")/.."

APT_TIMEOUT_S=900

is_installed() {
    case $1 in
        venv) "$(PATH=/usr/bin:$PATH command -v python3)" -c 'import ensurepip, venv' ;;  # the distribution's, if there is one
        libatomic) python3 -c 'import ctypes; ctypes.CDLL("libatomic.so.1")' ;;
        promtool) command -v prometheus && command -v promtool || [ -x .tools/prometheus/usr/bin/promtool ] ;;
        pgbouncer) command -v pgbouncer || [ -x /usr/sbin/pgbouncer ] ;;
        podman) command -v podman && command -v runc && command -v iptables && [ -x /usr/lib/podman/aardvark-dns ] \
            && [ -x /usr/lib/podman/netavark ] && command -v catatonit ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

package_of() {
    case $1 in
        venv) echo python3-venv ;;
        libatomic) echo libatomic1 ;;
        promtool) echo prometheus ;;
        podman) echo podman runc netavark aardvark-dns iptables catatonit ;;
        *) echo "$1" ;;
    esac
}

# apt ARGUMENTS...: run apt-get with its output in the log. A package list that is missing or old makes it fail.
apt() {
    $as_root timeout --foreground "$APT_TIMEOUT_S" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >>"$APT_LOG" 2>&1 </dev/null
}

update_and() {
    apt update && "$@"
}

install_packages() {
    apt install -y --no-install-recommends "$@"
}

# Downloading into a folder of one's own needs no rights, if the package lists are there.
unpack_prometheus() {
    unpacking=$(mktemp -d "$PWD/.tools/unpacking.XXXXXX")
    if (cd "$unpacking" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb prometheus) >>"$APT_LOG" 2>&1; then
        rm -rf .tools/prometheus
        mv "$unpacking/prometheus" .tools/prometheus
    fi
    rm -rf "$unpacking"
    [ -x .tools/prometheus/usr/bin/promtool ]
}

# install NAME: return 0 when it is installed, else set `reason`.
install() {
    case $1 in
        promtool) step=unpack_prometheus ;;
        *) step="install_packages $(package_of "$1")" ;;
    esac
    if ! command -v apt-get >/dev/null 2>&1; then
        reason="there is no apt-get on this machine"
    elif [ "$may_install" = no ] && [ "$step" != unpack_prometheus ]; then
        reason="this user may not install packages (not root, and sudo asks for a password)"
    else
        echo "tools: installing $1 (Debian's package $(package_of "$1"))"
        if $step || { [ "$may_install" = yes ] && update_and $step; }; then
            return 0
        fi
        reason="apt-get failed (its output is in $APT_LOG)"
    fi
    return 1
}

as_root=
may_install=yes
if [ "$(id -u)" != 0 ]; then
    as_root="sudo -n"
    sudo -n true 2>/dev/null || may_install=no
fi

status=0
for name in "$@"; do
    if is_installed "$name"; then
        continue
    fi
    mkdir -p .tools
    APT_LOG=.tools/$name.log
    : >"$APT_LOG"
    if ! install "$name"; then
        echo "tools: $name is missing, and $reason: install $(package_of "$name") by hand." >&2
        [ "${CI:-}" != true ] || status=1
    fi
done
exit "$status"
