"""What is sent for a message of each level, and what each answer leads to, line by line."""

import asyncio
from contextlib import suppress

import pytest
from harness.patience import turns, until
from harness.stanzas.qos_script import ScriptedStream, read

from pubqueue_xeps.client.ask import Denied
from pubqueue_xeps.errors import DeliveryUnknown, NotConfirmed, PendingFailed
from pubqueue_xeps.wire.requests import qos as words
from pubqueue_xeps.xep_qos import Level, Retry, Sent, pending_file
from pubqueue_xeps.xep_qos.levels import Step
from pubqueue_xeps.xep_qos.pending_file import PendingFile
from pubqueue_xeps.xep_qos.sender import Sender

QUEUE = "queue.example.org"
MESSAGE = words.embedded(
    read("<message from='a@b' to='c@d' id='m1'><x xmlns='y'>é&lt;</x></message>")
)
CARRIED = '<message xmlns="jabber:client" id="m1"><x xmlns="y">é&lt;</x></message>'
ASSURED = f"""> <iq type='set' id='{{a}}' to="{QUEUE}"><assured xmlns='urn:xmpp:qos' msgId="7">{CARRIED}</assured></iq>"""
DELIVER = (
    f"""> <iq type='set' id='{{d}}' to="{QUEUE}"><deliver xmlns='urn:xmpp:qos' msgId="7"/></iq>"""
)
RECEIVED = (
    f"< <iq type='result' id='{{a}}' from='{QUEUE}'><received xmlns='urn:xmpp:qos' msgId='7'/></iq>"
)
DONE = f"< <iq type='result' id='{{d}}' from='{QUEUE}'/>"
ONCE = f"""> <iq type='set' id='{{a}}' to="{QUEUE}"><acknowledged xmlns='urn:xmpp:qos'>{CARRIED}</acknowledged></iq>"""
UNKNOWN = "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><unknown-message xmlns='urn:x-pubqueue:0'/>"
PATIENT = Retry(first=3600, longest=3600)
ONCE_AGAIN = Retry(first=0.01, factor=1e9, longest=3600)
"""Repeats a step soon, and then not again for as long as a test lasts."""
HASTY = Retry(first=0.001, attempts=3)


def refused(name, condition, kind="cancel", origin=QUEUE):
    error = f"<error type='{kind}'>{condition}</error>"
    if not condition.startswith("<"):
        error = f"<error type='{kind}'><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    return f"< <iq type='error' id='{{{name}}}' from='{origin}'>{error}</iq>"


class Side:
    """A sender on a line, in a session."""

    def __init__(self, retry=PATIENT, *, check=False, path=None, online=True):
        self.line, self.file = ScriptedStream(), PendingFile(path)
        self.sender = Sender(self.line, self.file, retry, check=check)
        if online:
            self.sender.session_started()

    def send(self, level=Level.ASSURED, message=MESSAGE):
        return asyncio.ensure_future(self.sender.send(QUEUE, message, level, "7"))

    async def play(self, *lines):
        sender = self.sender
        await self.line.play(
            "\n".join(lines), sender.read, sender.session_lost, sender.session_started
        )


@pytest.mark.covers("QS-029")
async def test_an_assured_message_is_four_stanzas():
    side = Side()
    sent = side.send()
    await side.play(ASSURED, RECEIVED, DELIVER, DONE)
    assert await sent == Sent(QUEUE, "7", Level.ASSURED, 2)
    assert not side.file.outgoing


@pytest.mark.covers("QS-029")
async def test_an_acknowledged_message_is_two_stanzas():
    side = Side()
    sent = side.send(Level.ACKNOWLEDGED)
    await side.play(ONCE, f"< <iq type='result' id='{{a}}' from='{QUEUE}'/>")
    assert await sent == Sent(QUEUE, "7", Level.ACKNOWLEDGED, 1)


@pytest.mark.covers("QS-029")
async def test_an_unacknowledged_message_is_one_stanza():
    side = Side()
    sent = await side.sender.send_once(QUEUE, MESSAGE, "7")
    await side.play(f"""> <message to="{QUEUE}" id="m1"><x xmlns="y">é&lt;</x></message>""")
    assert sent == Sent(QUEUE, "7", Level.UNACKNOWLEDGED, 1)


@pytest.mark.covers("QS-027")
@pytest.mark.parametrize(
    "printed",
    [
        "<received msgId='7'/>",
        "<received xmlns='urn:xmpp:qos'/>",
        "<received xmlns='jabber:component:accept' msgId='7'/>",
    ],
)
async def test_received_is_understood_as_it_is_printed_and_without_its_id(printed):
    side = Side()
    sent = side.send()
    answer = f"< <iq type='result' id='{{a}}' from='{QUEUE}'>{printed}</iq>"
    await side.play(ASSURED, answer, DELIVER, DONE)
    await sent


@pytest.mark.covers("QS-030")
@pytest.mark.parametrize(
    "other",
    [
        f"< <iq type='result' id='{{a}}' from='{QUEUE}'><received xmlns='urn:xmpp:qos' msgId='8'/></iq>",
        f"< <iq type='result' id='{{a}}' from='{QUEUE}'/>",
        "< <iq type='result' id='{a}' from='mallory@example.org/x'><received xmlns='urn:xmpp:qos' msgId='7'/></iq>",
        f"< <iq type='result' id='other' from='{QUEUE}'><received xmlns='urn:xmpp:qos' msgId='7'/></iq>",
        refused("a", "forbidden", origin="mallory@example.org/x"),
        refused("a", "service-unavailable"),
        refused("a", "internal-server-error"),
        refused("a", "resource-constraint", "wait"),
        refused("a", "not-authorized", "wait"),
    ],
)
async def test_what_is_no_answer_changes_nothing(other):
    side = Side()
    sent = side.send()
    await side.play(ASSURED, other)
    assert not sent.done()
    assert [row.step for row in side.file.outgoing.values()] == [Step.ASSURED]
    await side.play(RECEIVED, DELIVER, DONE)
    await sent


@pytest.mark.covers("QS-007", "QS-008")
async def test_a_silent_step_is_repeated_to_the_byte_under_its_id_and_then_given_up():
    side = Side(HASTY)
    sent = side.send()
    await side.play(ASSURED, ASSURED, ASSURED)
    with pytest.raises(
        NotConfirmed, match=r"was not confirmed after 3 sendings: .* does not answer"
    ):
        await sent
    await side.play()


async def test_each_step_has_its_own_attempts_and_a_late_answer_to_any_sending_counts():
    side = Side(Retry(first=0.02, factor=1, attempts=50))
    sent = side.send()
    await side.play(ASSURED, ASSURED)
    side.sender.read(read(side.line.said(RECEIVED[2:])))
    while "<deliver" not in (text := await side.line.sent.get()):
        assert "<assured" in text
    side.line.match(DELIVER[2:], text)
    side.sender.read(read(side.line.said(DONE[2:])))
    assert (await sent).level == Level.ASSURED


@pytest.mark.covers("QS-007")
def test_the_pauses_double_up_to_the_longest():
    retry = Retry(first=5, factor=2, longest=60, attempts=8)
    assert [retry.pause(sent) for sent in range(1, 8)] == [5, 10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize(
    "wrong", [{"first": 0}, {"attempts": 0}, {"attempts": True}, {"factor": 0.5}, {"longest": -1}]
)
def test_a_retry_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Retry(**wrong)


async def test_a_cut_stream_repeats_the_step_at_once_in_the_next_session():
    side = Side()
    sent = side.send()
    await side.play(ASSURED, "-", "+", ASSURED, RECEIVED, DELIVER, "-", "+", DELIVER, DONE)
    assert (await sent).attempts == 4


@pytest.mark.parametrize("step", ["a", "d"])
async def test_a_refusal_is_raised_at_once_and_nothing_stays_pending(step):
    side = Side()
    sent = side.send()
    first = [ASSURED, refused("a", "not-allowed")]
    second = [ASSURED, RECEIVED, DELIVER, refused("d", "item-not-found")]
    await side.play(*(first if step == "a" else second))
    with pytest.raises(Denied):
        await sent
    assert not side.file.outgoing


async def test_an_unknown_message_is_an_unknown_delivery():
    side = Side()
    sent = side.send()
    await side.play(ASSURED, RECEIVED, DELIVER, refused("d", UNKNOWN))
    with pytest.raises(DeliveryUnknown) as caught:
        await sent
    assert caught.value.condition == "item-not-found"
    assert not side.file.outgoing


async def test_bound_as_another_resource_nothing_goes_on_under_the_new_one(tmp_path):
    side = Side(path=tmp_path / "pending.db")
    sent = side.send()
    await side.play(ASSURED, "-")
    side.line.jid = "bot@example.org/two"
    side.line.ids.clear()
    await side.play("+", ASSURED, RECEIVED, DELIVER, "-")
    side.line.jid = "bot@example.org/three"
    await side.play("+")
    with pytest.raises(DeliveryUnknown, match="was sent as bot@example"):
        await sent
    assert not side.file.outgoing
    side.file.close()


async def test_what_was_never_sent_keeps_its_ids_when_a_session_starts():
    side = Side(online=False)
    sent = side.send()
    await side.play("+", ASSURED, RECEIVED, DELIVER, DONE)
    await sent


QUERY = f"""> <iq type='get' id='{{q}}' to="{QUEUE}"><query xmlns='http://jabber.org/protocol/disco#info'/></iq>"""
FEATURES = (
    f"< <iq type='result' id='{{q}}' from='{QUEUE}'>"
    "<query xmlns='http://jabber.org/protocol/disco#info'><feature var='urn:xmpp:qos'/></query></iq>"
)


async def test_a_peer_is_asked_for_the_feature_once_in_a_session():
    side = Side(check=True)
    first, second = side.send(), side.send()  # the second joins the first
    await side.play(QUERY, FEATURES, ASSURED, RECEIVED, DELIVER, DONE)
    assert await first == await second
    side.line.ids.clear()
    third = side.send()
    await side.play(ASSURED, RECEIVED, DELIVER, "-", "+", DELIVER, DONE)
    await third
    side.line.ids.clear()
    fourth = side.send()
    await side.play(QUERY, FEATURES, ASSURED, RECEIVED, DELIVER, DONE)
    await fourth


@pytest.mark.parametrize(
    "answer", [FEATURES.replace("urn:xmpp:qos", "urn:xmpp:ping"), refused("q", "forbidden")]
)
async def test_a_peer_without_the_feature_is_refused_and_gets_nothing(answer):
    side = Side(check=True)
    sent = side.send()
    await side.play(QUERY, answer)
    with pytest.raises(Denied, match="feature-not-implemented"):
        await sent
    await side.play()
    assert not side.file.outgoing


async def test_a_service_that_is_away_is_asked_again():
    side = Side(ONCE_AGAIN, check=True)
    sent = side.send()
    await side.play(QUERY, refused("q", "service-unavailable"), QUERY, FEATURES, ASSURED)
    sent.cancel()


async def test_another_message_under_the_id_of_a_pending_one_is_refused():
    side = Side()
    sent = side.send()
    await side.play(ASSURED)
    with pytest.raises(ValueError, match="is pending under the id '7'"):
        await side.send(message=MESSAGE.replace("é", "e"))
    sent.cancel()


async def test_without_a_file_a_message_that_is_given_up_is_gone():
    side = Side()
    sent = side.send()
    await side.play(ASSURED)
    sent.cancel()
    with suppress(asyncio.CancelledError):
        await sent
    await turns(1)
    assert not side.file.outgoing


async def test_pending_messages_go_on_from_their_steps_the_oldest_first(tmp_path):
    side = Side(path=tmp_path / "pending.db")
    tasks = [
        asyncio.ensure_future(side.sender.send(QUEUE, MESSAGE, Level.ASSURED, name))
        for name in "789"
    ]
    await side.play(
        ASSURED,
        ASSURED.replace('"7"', '"8"').replace("{a}", "{b}"),
        ASSURED.replace('"7"', '"9"').replace("{a}", "{c}"),
        RECEIVED,
        DELIVER,
    )
    side.sender.stop()
    given_up = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in given_up} == {NotConfirmed}
    side.file.close()

    later = Side(path=tmp_path / "pending.db", online=False)
    later.line.ids = side.line.ids
    reported = asyncio.Queue()
    later.sender.sent = reported.put_nowait
    later.sender.resume()
    await later.play(
        "+",
        DELIVER,
        ASSURED.replace('"7"', '"8"').replace("{a}", "{b}"),
        ASSURED.replace('"7"', '"9"').replace("{a}", "{c}"),
        DONE,
    )
    assert await reported.get() == Sent(QUEUE, "7", Level.ASSURED, 1)
    assert [row.msg_id for row in later.file.outgoing.values()] == ["8", "9"]
    assert later.file.resource("bot@example.org") == "one"
    later.sender.stop()
    later.file.close()


async def test_many_messages_share_their_commits_and_all_are_written(tmp_path, monkeypatch):
    commits, commit = [], pending_file.commit

    def counted(database, statements):
        commits.append(len(statements))
        return commit(database, statements)

    monkeypatch.setattr(pending_file, "commit", counted)
    side = Side(path=tmp_path / "pending.db")
    tasks = [
        asyncio.ensure_future(side.sender.send(QUEUE, MESSAGE, Level.ACKNOWLEDGED, str(n)))
        for n in range(500)
    ]
    await until(lambda: side.line.sent.qsize() == 500)
    assert sum(commits) == 500
    assert len(commits) < 50
    side.sender.stop()
    given_up = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(error) for error in given_up} == {NotConfirmed}
    side.file.close()


async def test_a_message_that_cannot_be_written_is_not_sent(tmp_path):
    side = Side(path=tmp_path / "pending.db")
    side.file.close()
    with pytest.raises(PendingFailed, match="is closed"):
        await side.send()
    await side.play()
    assert not side.file.outgoing


async def test_a_message_that_is_forgotten_is_not_sent_again(tmp_path):
    side = Side(path=tmp_path / "pending.db")
    sent = side.send()
    await side.play(ASSURED)
    (row,) = side.file.outgoing.values()
    side.sender.forget(row)
    with pytest.raises(NotConfirmed, match="was given up"):
        await sent
    side.sender.resume()
    await side.play("-", "+")
    side.file.close()
    again = PendingFile(tmp_path / "pending.db")
    assert not again.outgoing
    again.close()
