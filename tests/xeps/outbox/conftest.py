import pytest
from harness.databases.outboxes import KINDS, made

from pubqueue import Publisher, Relay
from pubqueue.testing import Service


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """An outbox in each database."""
    if request.param == "sqlite":
        return made(f"sqlite:///{tmp_path / 'shop.db'}")
    server = request.getfixturevalue("running_postgres")
    return made(f"postgresql://postgres@{server.host}:{server.port}/queues")


@pytest.fixture
def sqlite(tmp_path):
    """An outbox in SQLite, where the database makes no difference."""
    return made(f"sqlite:///{tmp_path / 'shop.db'}")


@pytest.fixture(scope="module")
def running_service():
    with Service() as service:
        yield service


@pytest.fixture
def service(running_service):
    running_service.clear()
    for node in ("jobs", "mails"):
        running_service.create(node, dedup_window=3600)
    return running_service


@pytest.fixture
def relay_of(service):
    """Make relays of an outbox, which publish to the service of the test."""

    def make(place, **kwargs):
        database = kwargs.pop("database", place.url)
        return Relay(
            place.outbox, database, Publisher(**service.account("etl")), signals=(), **kwargs
        )

    return make
