"""Each committed row is one item in the order of its group, however often relays are killed, on each database."""

import pytest
from harness.databases.outboxes import made
from harness.processes.killed_relays import bring_through

pytestmark = pytest.mark.e2e
KILLS = 12


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_relays_are_killed(database, seed, tmp_path, request):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    if database == "postgresql":
        server = request.getfixturevalue("running_postgres")
        url = f"postgresql://postgres@{server.host}:{server.port}/queues"
    found = await bring_through(tmp_path, made(url), rows=300, kills=KILLS, seed=seed)
    assert found.wrong() == []
    assert len(found.committed) >= 300
    assert found.codes == [0, 0]
