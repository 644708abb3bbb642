"""The Debian package, built once for those who install it, and the locked libraries."""

import os
import shutil
import subprocess
import sys

import pytest
from harness.documents.documented import ROOT

PIPS_OWN = "PIP_", "HTTP", "http", "SSL_", "REQUESTS_"
"""How the names of variables begin that lead to a package index."""


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """A clone, as `git clone` makes it: there is no development environment in it."""
    folder = tmp_path_factory.mktemp("clone") / "pubqueue"
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def built(tree):
    """The folder in which the package and the wheel are that it is made of: `make deb` has made them."""
    own = {name: value for name, value in os.environ.items() if name.startswith(PIPS_OWN)}
    own |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ["HOME"]}
    environment = own | {"COMPRESSION": "-Znone"}  # which takes most of the time
    done = subprocess.run(
        ["make", "deb"], cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tree / "build" / "deb"


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """A folder with the locked libraries, for Debian's Python, in the place of a package index."""
    folder = tmp_path_factory.mktemp("index")
    words = "download -q --no-deps --require-hashes --disable-pip-version-check"
    locks = "-r", "packaging/requirements.lock", "-r", "packaging/builder.lock"
    pip = (sys.executable, "-Im", "pip", "--python", "/usr/bin/python3")
    given = [*pip, *words.split(), *locks, "-d", folder]
    subprocess.run(given, cwd=ROOT, check=True, capture_output=True)
    return folder
