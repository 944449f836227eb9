"""Build the images: on a base from Debian's packages, since no registry is needed to run these tests."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.support.repository import ROOT
from tests.system.containers.compose import Service
from tests.system.containers.podman import Podman

BASE: Final = "localhost/muster-debian-base"
SUITE: Final = "trixie"
"""The Debian of the image that it replaces, whose Python has the same version."""
PACKAGES: Final = "ca-certificates,python3,python3-venv,python-is-python3"
CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


def build(podman: Podman, services: Iterable[Service], scratch: Path) -> None:
    """Build every image that these services are built from; what is built already is used again."""
    if podman.attempt("image", "exists", BASE).returncode != 0:
        _build_base(podman, scratch / "base.tar")
    for image, described in {service.image: service.described["build"] for service in services}.items():
        target = [f"--target={described['target']}"] if "target" in described else []
        file = ROOT / described["dockerfile"]
        podman(
            "build",
            "--network=host",
            f"--build-arg=BASE={BASE}",
            *target,
            f"--file={file}",
            f"--tag={image}",
            str(ROOT),
        )


def _build_base(podman: Podman, archive: Path) -> None:
    """Make an image of Debian with Python, and with the certificates that this machine trusts."""
    trust = f"copy-in {CERTIFICATES} {Path(CERTIFICATES).parent}"
    made = subprocess.run(
        ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", f"--customize-hook={trust}", SUITE, archive],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-4000:]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    podman("import", f"--change=ENV {path}", f"--change=ENV PIP_CERT={CERTIFICATES}", str(archive), BASE)
    archive.unlink()
