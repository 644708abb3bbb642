"""What the README says that other pubsub services have, asked of them and of this one."""

import pytest
from peers.report import README, table, written
from peers.run import asked

pytestmark = pytest.mark.e2e


async def test_the_readme_says_what_each_service_does(tmp_path):
    found = table(await asked(tmp_path))
    assert written(README.read_text()) == found, "`make peers` writes it anew"
