"""What each request of a sender gets for an answer, and what is handed on: line by line, and the seed's own examples."""

import asyncio
import sqlite3
from xml.etree.ElementTree import tostring

import pytest
from harness.stanzas.qos_script import ScriptedStream, read

from pubqueue_xeps.errors import PendingFailed
from pubqueue_xeps.xep_qos import Limits, receiver
from pubqueue_xeps.xep_qos.pending_file import PendingFile
from pubqueue_xeps.xep_qos.receiver import Receiver

SENDER = "queue.example.org"
STANZAS = "xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'"


def assured(name="123", msg_id="7", body="<x xmlns='y'/>", sender=SENDER):
    inner = f"<message from='evil@example.org'>{body}</message>"
    return (
        f"< <iq type='set' id='{name}' from='{sender}' to='bot@example.org/one'>"
        f"<assured xmlns='urn:xmpp:qos' msgId='{msg_id}'>{inner.replace('<message', message_tag())}</assured></iq>"
    )


def message_tag():
    return "<message xmlns='jabber:client'"


def deliver(name="124", msg_id="7", sender=SENDER):
    return (
        f"< <iq type='set' id='{name}' from='{sender}' to='bot@example.org/one'>"
        f"<deliver xmlns='urn:xmpp:qos' msgId='{msg_id}'/></iq>"
    )


def received(name="123", msg_id="7", to=SENDER):
    return f"""> <iq type='result' id="{name}" to="{to}"><received xmlns='urn:xmpp:qos' msgId="{msg_id}"/></iq>"""


def done(name="124", to=SENDER):
    return f"""> <iq type='result' id="{name}" to="{to}"/>"""


def error(name, kind, condition, more="", to=SENDER):
    return f"""> <iq type='error' id="{name}" to="{to}"><error type='{kind}'><{condition} {STANZAS}/>{more}</error></iq>"""


UNKNOWN = error("124", "cancel", "item-not-found", "<unknown-message xmlns='urn:x-pubqueue:0'/>")


class Side:
    """A receiver on a line; `handed` is what it has handed on."""

    def __init__(self, path=None, limits=None, trusts=lambda _jid: True):
        self.line, self.file, self.handed = ScriptedStream(), PendingFile(path), []
        self.receiver = Receiver(
            self.file,
            limits or Limits(),
            reply=self.line.send_text,
            hand_on=self.hand_on,
            trusts=trusts,
        )
        self.tasks = []

    def hand_on(self, message):
        self.line.send_text(f"handed {len(self.handed)}")
        self.handed.append(message)

    def feed(self, iq):
        if not self.receiver.take(iq):
            self.tasks.append(asyncio.ensure_future(self.receiver.take_assured(iq)))

    async def play(self, *lines):
        await self.line.play("\n".join(lines), self.feed)
        if self.tasks:
            await asyncio.wait(self.tasks)
        await self.line.play("", self.feed)


@pytest.mark.covers("QS-044")
async def test_a_message_is_handed_on_once_after_its_answer_with_the_addresses_of_the_iq():
    side = Side()
    await side.play(assured(), received(), deliver(), done(), "> handed 0", deliver(), done())
    (message,) = side.handed
    assert dict(message.attrib) == {"from": SENDER, "to": "bot@example.org/one"}
    assert message[0].tag == "{y}x"


async def test_an_acknowledged_message_is_answered_before_it_is_handed_on_and_each_time():
    side = Side()
    said = assured().replace("assured", "acknowledged").replace(" msgId='7'", "")
    result = done("123")
    await side.play(said, result, "> handed 0", said, result, "> handed 1")


@pytest.mark.parametrize(
    "lines",
    [
        [assured(), received(), assured(), received()],
        [assured(), received(), assured("other"), received("other")],
        [assured(), received(), assured(body="<z xmlns='y'/>"), error("123", "cancel", "conflict")],
        [deliver(), UNKNOWN],
        [
            assured(),
            received(),
            deliver(sender="x@example.org/1"),
            UNKNOWN.replace(SENDER, "x@example.org/1"),
        ],
        [
            assured(),
            received(),
            deliver(),
            done(),
            "> handed 0",
            assured(),
            received(),
            deliver(),
            done(),
        ],
        [
            assured(),
            received(),
            deliver(),
            done(),
            "> handed 0",
            assured("125"),
            received("125"),
            deliver("126"),
            done("126"),
            "> handed 1",
        ],
        [
            assured(),
            received(),
            deliver(),
            done(),
            "> handed 0",
            assured(body="<z xmlns='y'/>"),
            received(),
            deliver(),
            done(),
            "> handed 1",
        ],
    ],
    ids=[
        "again",
        "again in another iq",
        "other bytes",
        "unknown",
        "another sender",
        "late copy",
        "id free again",
        "id free for other bytes",
    ],
)
async def test_the_table_of_what_is_known(lines):
    side = Side()
    await side.play(*lines)


async def test_many_delivers_at_once_hand_on_one_message(tmp_path):
    side = Side(tmp_path / "held.db")
    await side.play(assured(), received())
    await side.play(
        *[deliver(str(n)) for n in range(5)],
        done("0"),
        "> handed 0",
        *[done(str(n)) for n in range(1, 5)],
    )
    assert len(side.handed) == 1
    side.file.close()


IQ = "< <iq type='set' id='1' from='queue.example.org'>{}</iq>"
M = "<message xmlns='jabber:client'/>"


@pytest.mark.parametrize(
    "child",
    [
        "<received xmlns='urn:xmpp:qos' msgId='7'/>",
        f"<assured xmlns='urn:xmpp:qos'>{M}</assured>",
        f"<assured xmlns='urn:xmpp:qos' msgId=''>{M}</assured>",
        f"<assured xmlns='urn:xmpp:qos' msgId='{'é' * 512}'>{M}</assured>",
        "<assured xmlns='urn:xmpp:qos' msgId='7'/>",
        f"<assured xmlns='urn:xmpp:qos' msgId='7'>{M}{M}</assured>",
        f"<assured xmlns='urn:xmpp:qos' msgId='7'>x{M}</assured>",
        f"<assured xmlns='urn:xmpp:qos' msgId='7'>{M}x</assured>",
        "<acknowledged xmlns='urn:xmpp:qos'><presence xmlns='jabber:client'/></acknowledged>",
        "<acknowledged xmlns='urn:xmpp:qos'><message xmlns='y'/></acknowledged>",
        f"<deliver xmlns='urn:xmpp:qos' msgId='7'>{M}</deliver>",
        "<deliver xmlns='urn:xmpp:qos'/>",
    ],
)
async def test_what_is_malformed_is_a_bad_request_and_nothing_is_kept(child):
    side = Side()
    await side.play(IQ.format(child), error("1", "modify", "bad-request"))
    await side.play(IQ.format(child).replace("'set'", "'get'"), error("1", "modify", "bad-request"))
    assert not side.file.held


@pytest.mark.parametrize(
    "space", ["jabber:client", "jabber:server", "jabber:component:accept", "urn:xmpp:qos"]
)
async def test_the_embedded_message_may_be_of_each_stream_and_is_a_clients_then(space):
    side = Side()
    inner = f"<message xmlns='{space}'><body>hello</body></message>"
    said = IQ.format(f"<acknowledged xmlns='urn:xmpp:qos'>{inner}</acknowledged>")
    await side.play(said, done("1"), "> handed 0")
    assert side.handed[0].findtext("{jabber:client}body") == "hello"


@pytest.mark.covers("QS-044")
async def test_a_stranger_is_not_allowed_to_have_messages_kept():
    side = Side(trusts=lambda jid: jid == SENDER)
    stranger = "room@muc.example.org/x"
    await side.play(assured(sender=stranger), error("123", "cancel", "not-allowed", to=stranger))
    await side.play(assured(), received())


@pytest.mark.covers("QS-044")
@pytest.mark.parametrize(
    "limits",
    [
        Limits(messages_per_account=1),
        Limits(messages=1),
        Limits(bytes_per_account=100),
        Limits(bytes=100),
    ],
)
async def test_beyond_a_limit_nothing_is_kept_and_a_repetition_is_answered(limits):
    side = Side(limits=limits)
    full = error("2", "wait", "resource-constraint")
    await side.play(assured(), received(), assured("2", "8"), full, assured(), received())
    await side.play(deliver(), done(), "> handed 0", assured("2", "8"), received("2", "8"))


async def test_the_limit_of_an_account_counts_its_resources_and_leaves_other_accounts_room():
    side = Side(limits=Limits(messages_per_account=1))
    one, two, other = "a@example.org/1", "a@example.org/2", "b@example.org/1"
    await side.play(
        assured(sender=one),
        received(to=one),
        assured(sender=two),
        error("123", "wait", "resource-constraint", to=two),
        assured(sender=other),
        received(to=other),
    )


async def test_a_held_message_and_a_remembered_answer_end_in_time(monkeypatch):
    side = Side(limits=Limits(remembered=1))
    await side.play(
        assured("1", "8"), received("1", "8"), deliver("2", "8"), done("2"), "> handed 0"
    )
    await side.play(
        assured("3", "9"), received("3", "9"), deliver("4", "9"), done("4"), "> handed 1"
    )
    await side.play(assured(), received(), deliver("5", "8"), UNKNOWN.replace("124", "5"))
    later = receiver.CLOCK() + receiver.KEPT_FOR + 1
    monkeypatch.setattr(receiver, "CLOCK", lambda: later)
    await side.play(deliver(), UNKNOWN, deliver("4", "9"), UNKNOWN.replace("124", "4"))
    assert not side.file.held
    assert not side.file.ended


@pytest.mark.covers("QS-044")
async def test_what_is_kept_and_what_was_delivered_is_known_to_the_next_process(tmp_path):
    first = Side(tmp_path / "held.db")
    await first.play(
        assured(),
        received(),
        deliver(),
        done(),
        "> handed 0",
        assured("1", "8"),
        received("1", "8"),
    )
    first.file.close()
    second = Side(tmp_path / "held.db")
    await second.play(deliver(), done(), deliver("2", "8"), done("2"), "> handed 0")
    second.file.close()


async def test_what_cannot_be_written_is_not_kept_and_may_be_repeated(tmp_path):
    side = Side(tmp_path / "held.db")
    await side.play(assured(), received())
    side.file.close()
    await side.play(deliver(), error("124", "wait", "internal-server-error"))
    await side.play(assured("1", "8"), error("1", "wait", "internal-server-error"))
    assert [row.msg_id for row in side.file.held.values()] == ["7"]
    assert not side.handed


# The example of section 2.3, mended: its prefixes as printed, </log> for </buy>, no stray > behind the start of an iq.
PRINTED = """
<iq id='123' type='set'
    from='entrance@example.org/34892374'
    to='counter@example.org/938089023'>
   <qos:assured xmlns:qos='urn:xmpp:qos' msgId='984232334'>
      <message>
         <log xmlns='urn:xmpp:eventlog' timestamp='2015-11-12T09:07:12Z' id='Entered'>
            <message>Entered.</message>
         </log>
      </message>
   </qos:assured>
</iq>
"""
PRINTED_DELIVER = """
<iq id='124' type='set'
    from='entrance@example.org/34892374'
    to='counter@example.org/938089023'>
   <qos:deliver xmlns:qos='urn:xmpp:qos' msgId='984232334'/>
</iq>
"""


@pytest.mark.covers("QS-028")
async def test_the_examples_of_the_text_as_they_are_printed():
    side = Side()
    entrance = "entrance@example.org/34892374"
    side.feed(read(PRINTED.strip()))
    await side.play(received("123", "984232334", entrance))
    side.feed(read(PRINTED_DELIVER.strip()))
    await side.play(done("124", entrance), "> handed 0")
    wanted = read(PRINTED.strip())[0][0]
    wanted.set("from", entrance)
    wanted.set("to", "counter@example.org/938089023")
    wanted.tail = None
    assert tostring(side.handed[0]) == tostring(wanted)


def test_the_file_is_for_its_account_alone(tmp_path):
    file = PendingFile(tmp_path / "pending.db")
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
    file.close()


@pytest.mark.parametrize("found", ["text", "another program", "in use"])
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, found):
    path = tmp_path / "pending.db"
    if found == "text":
        path.write_text("no database, but a long text " * 100)
    elif found == "in use":
        used = PendingFile(path)
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE theirs (x)")
        database.close()
    with pytest.raises(PendingFailed, match=r"^The file of pending messages .*\.$") as caught:
        PendingFile(path)
    if found == "in use":
        assert "another process has it" in str(caught.value)
        used.close()
    elif found != "text":
        assert "belongs to another program" in str(caught.value)
