"""When a publish is given up is a matter of its time alone: here each answer is there at once."""

import pickle
from xml.etree.ElementTree import fromstring

import pytest

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.publications import Publications
from pubqueue_xeps.errors import NotConfirmed, OtherId, ServiceUnavailable
from pubqueue_xeps.wire.publication import NewItem
from pubqueue_xeps.wire.refusals import Refusal

AT_REST = Denied(Refusal("cancel", "service-unavailable", text="I rest"))


class Stream:
    """Answers each question at once, by a fault."""

    def __init__(self, fault):
        self._fault = fault

    async def ready(self):
        pass

    async def ask(self, *_):
        raise self._fault


@pytest.mark.parametrize(
    ("fault", "raised", "said"),
    [
        (AT_REST, ServiceUnavailable, r"answers service-unavailable \(I rest\)"),
        (Unanswered(sent=False), ServiceUnavailable, "there is no connection"),
        (Unanswered(sent=True), NotConfirmed, "publish it again under its id"),
    ],
    ids=["away", "not sent", "silent"],
)
async def test_what_a_publish_came_to_in_its_time_is_raised(fault, raised, said):
    publications = Publications(Stream(fault), "queue.localhost", Timings())
    with pytest.raises(raised, match=said) as caught:
        await publications.publish(
            "jobs", NewItem(payload=1, id="i1"), 0
        )  # over in its first pause
    assert (caught.value.id, caught.value.node) == ("i1", "jobs")


class Answering(Stream):
    """Answers each question at once, with these items."""

    async def ask(self, *_):
        items = "".join(f"<item id='{name}'/>" for name in self._fault)
        space = "http://jabber.org/protocol/pubsub"
        return fromstring(
            f"<iq><pubsub xmlns='{space}'><publish node='jobs'>{items}</publish></pubsub></iq>"
        )


@pytest.mark.parametrize("items", [(), ("i1",)])
async def test_an_answer_about_the_item_confirms_it(items):
    publications = Publications(Answering(items), "queue.localhost", Timings())
    done = await publications.publish("jobs", NewItem(payload=1, id="i1"), 5)
    assert (done.node, done.id) == ("jobs", "i1")


async def test_an_answer_about_another_item_confirms_nothing():
    publications = Publications(Answering(["i2"]), "queue.localhost", Timings())
    with pytest.raises(
        OtherId, match="'i1' was changed on the way: the answer names 'i2'"
    ) as caught:
        await publications.publish("jobs", NewItem(payload=1, id="i1"), 5)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.node, error.id, error.other) == ("jobs", "i1", "i2")
