"""The Debian package, built once for those who install it."""

import os
import subprocess

import pytest
from harness.documents.documented import ROOT


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder in which the package and the wheel are that it is made of."""
    folder = tmp_path_factory.mktemp("deb") / "built"
    environment = os.environ | {"COMPRESSION": "-Znone"}  # which takes most of the time
    words = [ROOT / "tools" / "deb", folder]
    subprocess.run(words, check=True, capture_output=True, env=environment)
    return folder
