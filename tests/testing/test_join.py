"""What docs/how-to/join.md says, done with the service in the process; and what goes wrong between its steps."""

import pytest
from harness.documents.documented import ROOT, blocks_of

from pubqueue import (
    BlockingPublisher,
    Hold,
    Join,
    Level,
    Members,
    NewItem,
    NotAllPublished,
    Publisher,
    Refused,
)
from pubqueue.testing import Service, make_item

PAGE = ROOT / "docs/how-to/join.md"


@pytest.fixture
def service(monkeypatch):
    with Service() as made:
        for node in ("pages", "reports"):
            made.create(node, dedup_window=1000)
        monkeypatch.setenv("PUBQUEUE_URL", made.url("ann"))
        monkeypatch.setenv("PUBQUEUE_PASSWORD", made.password)
        yield made


def states(service, node):
    return {item.id: item.state for item in service.items(node)}


async def done(item):
    del item


async def test_the_example_of_the_page(service):
    names = {"render": done, "bind": done}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, str(PAGE), "exec"), names)
    await names["order"]()
    assert states(service, "reports") == {"report-7": "held"}
    await service.work(names["page"], node="pages")
    await service.work(names["report"], node="reports")
    assert service.done("reports") == ["report-7"]


async def test_a_batch_and_what_comes_after_it_is_repeated_after_any_failure(service):
    pages = [NewItem(payload=number, id=f"p{number}") for number in range(9)]
    after = NewItem(payload="all", id="r1")

    def breaks():
        yield from pages[:5]
        raise KeyError("the source")

    async with Publisher() as publisher:
        with pytest.raises(KeyError):
            await publisher.publish_many("pages", breaks(), then=after, then_node="reports")
        await service.work(done, node="pages")
        assert states(service, "reports") == {"r1": "held"}  # it is open, and waits for the others
        for _ in range(2):
            found = await publisher.publish_many("pages", pages, then=after, then_node="reports")
            assert [one.id for one in found] == [one.id for one in pages]
        seen = []

        async def report(item):
            seen.append((item.woken, item.members))

        await service.work(done, node="pages")
        await service.work(report, node="reports")
        assert seen == [("count", Members(0, 0, 9))]
        await publisher.publish_many("pages", pages, then=after, then_node="reports")
        assert states(service, "pages") == states(service, "reports") == {}


async def test_a_join_of_two_queues_that_listens_too(service):
    service.create("other")
    async with Publisher() as publisher:
        again = [
            await publisher.open_join(
                "reports", NewItem(payload={}, id="r1"), hold=Hold("hurry", within=60, then="dead")
            )
            for _ in range(2)
        ]
        join = Join("reports", "r1")
        assert again == [join, join]
        await publisher.publish("pages", 1, id="p1", joins=join)
        await publisher.publish("other", 1, id="o1", joins=join)
        assert await publisher.close_join(join)
        with pytest.raises(Refused, match="closed"):
            await publisher.publish("pages", 2, id="p2", joins=join)
        await service.work(done, node="pages")
        assert states(service, "reports") == {"r1": "held"}
        await publisher.signal("reports", "r1", "hurry")
        await service.work(done, node="reports")
        with pytest.raises(Refused, match="forbidden"):  # what is gone has no author any more
            await publisher.close_join(join)


async def test_what_cannot_be_a_join(service):
    with BlockingPublisher() as publisher:
        publisher.publish("reports", {}, id="r1")
        with pytest.raises(NotAllPublished, match="is no join"):
            publisher.publish_many(
                "pages", [1], then=NewItem(payload={}, id="r1"), then_node="reports"
            )
        with pytest.raises(ValueError, match="carry"):
            publisher.open_join("reports", {}, hold=Hold("a", carry=1))
        with pytest.raises(ValueError, match="then"):
            publisher.publish_many("pages", [1], then={}, level=Level.ACKNOWLEDGED)
        with pytest.raises(Refused, match="no join"):
            publisher.close_join(Join("reports", "r1"))
    with pytest.raises(ValueError, match="join"):
        Join("reports", "")


async def test_an_item_without_a_service():
    item = make_item(woken="count", members=Members(0, 1, 4))
    assert (item.woken, item.members) == ("count", Members(0, 1, 4, is_open=False))
