"""When a publish is given up is a matter of its time alone: here each answer is there at once."""

import pytest

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.publications import Publications
from pubqueue_xeps.errors import NotConfirmed, ServiceUnavailable
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
