"""What the testing kit does not do, so that a service starts within milliseconds."""

import ssl

from pubqueue.testing import Service
from pubqueue_xeps.publisher import Publisher


async def test_the_authorities_of_the_system_are_not_read(monkeypatch):
    """That takes longer than all else; a service, a worker and a publisher in one process use no TLS."""
    read = []

    def note(name):
        return lambda *_args, **_more: read.append(name)

    for name in ("load_default_certs", "set_default_verify_paths", "load_verify_locations"):
        monkeypatch.setattr(ssl.SSLContext, name, note(name))

    async def nothing(_item):
        """Succeed."""

    with Service() as service:
        service.create("jobs")
        async with Publisher(**service.account("bot")) as publisher:
            await publisher.publish("jobs", {"order": 1}, id="a")
        await service.work(nothing, node="jobs")
        assert service.done("jobs") == ["a"]
    assert read == []
