"""How large answers can get is known before anything is decided."""

import pytest
from harness.batches.facts import ANN, JOBS, NOW, waiting
from harness.batches.queue_requests import publishes, touches

from pubqueue.faces.xmpp.render import replies
from pubqueue.faces.xmpp.requests import PUBLISH
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES, ROOM
from pubqueue.model.decision import Published, Refusal, Touched
from pubqueue.model.entities import DeadLetter, ItemId, Jid, State

SERVICE = "queue.localhost"
NAMES = ("x", "long" * 200, "&<>'\"", "\u00e4\u20ac")


@pytest.mark.parametrize("wanted", ["", "short", "known"])
@pytest.mark.parametrize("name", NAMES)
def test_no_answer_to_a_publish_is_larger_than_was_computed(name, wanted):
    names = [f"{name}{number}" for number in range(50)]
    request = publishes(*names)
    write = PUBLISH.briefly.get(wanted, PUBLISH.write)
    ids = tuple(map(ItemId, names))
    for known in ((), ids[:7], ids):
        answer = write(Published(JOBS, ids, known=known), SERVICE)
        around = len(replies.published(Published(JOBS, ()), SERVICE))
        assert len(answer) - around <= replies.largest(request, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_nor_one_to_an_extension_of_locks(name):
    names = [f"{name}{number}" for number in range(50)]
    entries = tuple((ItemId(one), NOW) for one in names)
    around = len(replies.touched(Touched(JOBS, ()), SERVICE))
    answer = replies.touched(Touched(JOBS, entries), SERVICE)
    assert len(answer) - around <= replies.largest(touches(ANN, *names), "")


def test_what_would_not_fit_is_refused_and_what_fits_is_not():
    fits = replies.LIMIT // (10 + replies.ITEM)
    names = [f"{number:010}" for number in range(fits + 1)]
    assert replies.beyond(publishes(*names[:-1]), "") is None
    assert replies.beyond(publishes(*names), "").refusal is Refusal.TOO_MANY_ITEMS
    assert replies.beyond(publishes(*names[:-1]), "known") is not None


def test_of_many_dead_items_as_many_are_reported_as_there_is_room_for():
    letter = DeadLetter(1, NOW, "r" * 500, holder=Jid(ANN))
    dead = tuple(waiting(n, state=State.DEAD, dead_letter=letter) for n in range(2_000))
    ids = tuple(ItemId(f"{number:010}") for number in range(2_000))
    answer = replies.published(Published(JOBS, ids, dead=dead), SERVICE)
    assert ROOM - 1_000 < len(answer) < MAX_ANSWER_BYTES
    assert answer.count(b"<dead ") > 100
