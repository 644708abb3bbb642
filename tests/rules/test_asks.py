"""Which questions end with a change, to whom that is said, and where."""

import pytest
from harness.batches.facts import ANN, BOSS, ETL, JOBS, NOW, held, plain, queue, waiting, who
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, GiveUp, Lock, RemoveItem, ReplacePayload, Revive
from pubqueue.model.decision import DecidedInParts, Decision, Done, Published
from pubqueue.model.entities import (
    DIED_IN,
    DeadLetter,
    Draft,
    ItemId,
    Jid,
    NodeName,
    State,
    account_of,
)
from pubqueue.model.notices import Retracted
from pubqueue.model.transactions import Orphan, Sweep
from pubqueue.rules.asks import (
    PURGED,
    REPLACED,
    WITHDRAWN,
    Ended,
    EndedFacts,
    address,
    ended,
    news,
    with_news,
)
from pubqueue.rules.dead_letters import Cancel
from pubqueue.rules.expire import TOO_OLD, Expire
from pubqueue.rules.publication import Publish
from pubqueue.rules.seek import SeekItems
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.trimming import DropDead, ResumeTrims, TrimItems
from pubqueue_xeps.wire.asking import Death
from pubqueue_xeps.wire.ns import PUBQUEUE

ASKER = account_of(ETL)
PLACE, REPLY = NodeName(f"replies/{ASKER}"), ItemId("jobs/i1")
HEADERS = (("trace", "7"), ("reply-to", PLACE), ("correlation-id", REPLY))
MARK = object()

QUESTION = waiting(headers=HEADERS, acquired=3, failed=2)
WORKED_ON = held(headers=HEADERS, acquired=3, failed=2)
LETTER = DeadLetter(1, NOW, "no", None, ANN)
DEAD = replace(QUESTION, state=State.DEAD, dead_letter=LETTER)
RETRACT = Settle(who(ANN), JOBS, (QUESTION.id,), Verb.RETRACT)
WITHDRAW = replace(RETRACT, by=who(BOSS))
LATE = replace(RETRACT, token=7, late=True)
OTHER_HEADERS = (("reply-to", PLACE), ("correlation-id", "jobs/another"))


def replaced(headers, by=ASKER):
    return ReplacePayload(QUESTION, b"<job/>", by, headers)


# fmt: off
ENDS = [
    # request          change                                                    why it ended, None: it did not
    (Expire(),         GiveUp(QUESTION, NOW, TOO_OLD, 2),                        TOO_OLD),
    (RETRACT,          GiveUp(WORKED_ON, NOW, "no such flight", 2),              "no such flight"),
    (None,             GiveUp(QUESTION, NOW, "late", 2, NodeName("graves")),     "late"),
    (None,             GiveUp(DEAD, NOW, "once more, in a dead-letter node", 2), None),
    (Expire(),         RemoveItem(QUESTION),                                     TOO_OLD),
    (TrimItems(JOBS),  RemoveItem(QUESTION),                                     "its queue was full, and dropped its oldest items"),
    (SeekItems(MARK),  RemoveItem(QUESTION),                                     "its queue was led past it"),
    (SeekItems(MARK),  RemoveItem(QUESTION, done_at=NOW),                        "its queue was led past it"),
    (WITHDRAW,         RemoveItem(WORKED_ON),                                    WITHDRAWN),
    (Cancel(who(BOSS), JOBS, ()), RemoveItem(QUESTION),                          WITHDRAWN),
    (RETRACT,          RemoveItem(WORKED_ON),                                    None),
    (RETRACT,          RemoveItem(WORKED_ON, done_at=NOW),                       None),
    (LATE,             RemoveItem(replace(QUESTION, avoid=ANN, token=7)),        None),
    (DropDead(),       RemoveItem(DEAD),                                         None),
    (None,             RemoveItem(replace(QUESTION, state=State.DONE)),          None),
    (None,             replaced(OTHER_HEADERS),                                  REPLACED),
    (None,             replaced(()),                                             REPLACED),
    (None,             replaced(HEADERS),                                        None),
    (None,             replaced(HEADERS, Jid("bob@x")),                          REPLACED),
    (None,             Lock(QUESTION, ANN, 8, NOW, NOW),                         None),
    (None,             AddItem(JOBS, Draft(ItemId("a"), b"", headers=HEADERS), ASKER, NOW, State.QUEUED, None, None), None),
]
# fmt: on


@pytest.mark.parametrize(("asked", "change", "reason"), ENDS)
def test_what_ends_a_question(asked, change, reason):
    found = list(ended(asked, [change]))
    death = Death(JOBS, "i1", reason or "", 3, 2)
    assert found == ([] if reason is None else [Ended(ASKER, PLACE, REPLY, death)])


def test_a_dead_question_that_is_redriven_lives_again():
    (found,) = ended(None, [Revive(DEAD, JOBS)])
    assert (found.lives, found.place, found.reply) == (True, PLACE, REPLY)


def test_what_is_purged_is_said_without_its_node():
    asks = Orphan(7, ItemId("i1"), ASKER, HEADERS, 1, 0)
    change = Sweep(NOW, 9, (asks, replace(asks, headers=())))
    assert list(ended(Expire(), [change])) == [
        Ended(ASKER, PLACE, REPLY, Death("", "i1", PURGED, 1, 0))
    ]


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("reply-to", PLACE),),
        (("correlation-id", REPLY),),
        (("reply-to", "wages"), ("correlation-id", REPLY)),
        (("reply-to", "replies/bob@x"), ("correlation-id", REPLY)),
        (("reply-to", "replies/"), ("correlation-id", REPLY)),
    ],
)
def test_an_author_is_told_only_in_a_node_of_its_own(headers):
    assert address(headers, ASKER) is None
    assert list(ended(None, [RemoveItem(replace(QUESTION, headers=headers))])) == []


ENDED = Ended(ASKER, PLACE, REPLY, Death(JOBS, "i1", 'a <b> & "c"\0', 3, 2))
REPLIES = replace(plain(), name=PLACE)
THERE = EndedFacts(queue(), REPLIES, None)
SAID = replace(waiting(9), node=PLACE, id=REPLY, publisher=ASKER, headers=((DIED_IN, JOBS),))


def test_it_is_published_by_the_author_and_replaces_nothing():
    said = news(ENDED, who(ASKER), THERE)
    payload = (
        b'<died xmlns=\'urn:x-pubqueue:0\' node="jobs" id="i1"'
        b' reason="a &lt;b&gt; &amp; &quot;c&quot;\xef\xbf\xbd" attempts="3" failures="2"/>'
    )
    headers = (("correlation-id", REPLY), (DIED_IN, JOBS))
    draft = Draft(REPLY, payload, headers=headers, type=PUBQUEUE)
    assert said == Publish(
        who(ASKER), PLACE, (draft,), queueing=False, only_new=True, guests_follow=True
    )
    assert address(draft.headers, ASKER) is None  # what is said is no question


# fmt: off
SILENT = [
    (EndedFacts(queue(), None, None),               False, False),  # nothing is made for it
    (EndedFacts(None, REPLIES, None),               False, False),
    (EndedFacts(plain(), REPLIES, None),            False, False),  # the copies in queues are work, and this is not
    (EndedFacts(queue(), REPLIES, SAID),            False, False),  # it was said
    (EndedFacts(queue(), REPLIES, replace(SAID, headers=())), False, False),  # it was replied
    (THERE,                                         True,  False),
    (EndedFacts(queue(), REPLIES, SAID),            True,  True),
    (EndedFacts(queue(), REPLIES, replace(SAID, headers=())), True, False),
    (EndedFacts(queue(), REPLIES, replace(SAID, publisher=Jid("bob@x"))), True, False),
]
# fmt: on


@pytest.mark.parametrize(("facts", "lives", "withdraws"), SILENT)
def test_what_is_not_said_and_what_is_withdrawn(facts, lives, withdraws):
    said = news(replace(ENDED, lives=lives), who(ASKER), facts)
    expected = Settle(who(ASKER), PLACE, (REPLY,), Verb.RETRACT, seq=9)
    assert said == (expected if withdraws else None)


def test_what_is_said_counts_as_requests_of_their_own():
    said = news(ENDED, who(ASKER), THERE)
    change, notice = RemoveItem(QUESTION), Retracted(ANN, JOBS, (QUESTION.id,))
    death = Decision(Done(), (change,), (notice,), then=Expire())
    its = Decision(Published(PLACE, (REPLY,)), (RemoveItem(SAID),), then=TrimItems(PLACE))
    found = with_news(Expire(), death, [(said, its)])
    assert isinstance(found, DecidedInParts)
    assert (found.reply, found.then, found.notices) == (Done(), Expire(), (notice,))
    assert found.changes == (change, RemoveItem(SAID))
    assert found.parts == ((Expire(), death), (said, its))
    assert found.beside == (ResumeTrims(),)
    twice = with_news(Expire(), found, [(said, its)])
    assert twice.parts == (*found.parts, (said, its))
