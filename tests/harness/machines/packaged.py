"""Third-party programs that tests drive: `tools/setup` installs those in the distribution."""

import shutil

import pytest


def needs(*programs):
    """Mark a test that drives these programs: skipped if the distribution has no package of one."""
    lacking = [name for name in programs if shutil.which(name, path="/usr/bin:/bin") is None]
    return pytest.mark.skipif(bool(lacking), reason=f"no package here: {', '.join(lacking)}")
