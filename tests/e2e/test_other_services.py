"""What docs/explanation/other-services.md says that other pubsub services have, asked of them and of this one."""

import pytest
from bench.peers.report import PAGE, heads, own_column, table, written
from bench.peers.run import asked

pytestmark = pytest.mark.e2e


async def test_the_page_reports_what_each_service_does(tmp_path):
    found, said = table(await asked(tmp_path)), written(PAGE.read_text())
    assert own_column(said) == own_column(found), "`make peers` writes it anew"
    if heads(said) == heads(
        found
    ):  # else this machine has the others in versions of which it says nothing
        assert said == found, "`make peers` writes it anew"
