"""Steps of commands, one at a time: what is asked of the core, and what is answered."""

import itertools

import pytest
from harness.batches.facts import NOW, queue, who
from harness.servers.stub_server import ROOT, parse
from msgspec.structs import replace
from structlog.testing import capture_logs

from pubqueue.faces.xmpp.commands.handler import BUSY, MAX_FORM_LENGTH, CommandHandler
from pubqueue.faces.xmpp.commands.operation_forms import FORM_TYPE
from pubqueue.faces.xmpp.commands.steps import AGE
from pubqueue.faces.xmpp.parse.iq import Asked, Iq
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.replies import Described, NodeEntry, NodePage, Power, Powers
from pubqueue.rules.inspect import AskPowers
from pubqueue.rules.nodes import Configure
from pubqueue.rules.read import ReadNodes
from pubqueue_xeps.wire import ns

BOSS = who("boss@x/desk")
MINE = Powers((Power.NODES,), (queue(),))


class Sitting:
    """Somebody at a desk; time passes when the test says."""

    def __init__(self):
        self.now = 0.0
        self.handler = CommandHandler(lambda: self.now)
        self._ids = itertools.count(1)

    def send(self, command, *, session=None, action=None, inner="", **fields):
        """Take a step, and return what the desk makes of it."""
        words = f" sessionid='{session}'" if session else ""
        words += f" action='{action}'" if action else ""
        filled = "".join(
            f"<field var='{var}'><value>{value}</value></field>" for var, value in fields.items()
        )
        inner = inner or (f"<x xmlns='{ns.DATA}' type='submit'>{filled}</x>" if fields else "")
        parser = StreamParser()
        parser.feed(ROOT.encode())
        (stanza,) = parser.feed(
            f"<iq type='set' id='{next(self._ids)}' from='boss@x/desk' to='q'>"
            f"<command xmlns='{ns.COMMANDS}' node='{ns.PUBQUEUE}#{command}'{words}>{inner}</command>"
            "</iq>".encode()
        )
        return self.handler.take(Iq(stanza, BOSS, lambda: "new", self.handler))

    def begun(self, command, reply):
        """Begin a command, of which the core says so, and return the session and what is shown."""
        shown = said(self.send(command), reply)
        return shown.get("sessionid"), shown


def said(asked, reply):
    """Return the answer that the desk makes of a reply."""
    assert isinstance(asked, Asked), asked
    return parse(asked.write(reply, "q").decode())


@pytest.fixture
def sitting():
    return Sitting()


def actions(shown):
    return [each.tag.rpartition("}")[2] for each in shown.find("{*}actions")]


def test_a_command_asks_the_core_and_then_makes_the_request(sitting):
    assert sitting.send("pause").request == AskPowers(BOSS, Power.NODES)
    session, shown = sitting.begun("pause", MINE)
    assert (shown.get("status"), actions(shown)) == ("executing", ["complete"])
    request = sitting.send("pause", session=session, node="jobs").request
    assert isinstance(request, Configure)
    assert request.settings.values == {"paused": "1"}


def test_an_action_of_a_user_is_logged_once_it_is_done(sitting):
    session, _ = sitting.begun("pause", MINE)
    asked = sitting.send("pause", session=session, node="jobs")
    with capture_logs() as logs:
        asked.write(Done(), "q")
    reported = {
        "event": "operation.performed",
        "operation": "pause",
        "by": BOSS.jid,
        "node": "jobs",
    }
    assert logs == [reported | {"log_level": "info"}]


def test_a_program_has_it_done_in_one_step_and_leaves_no_session(sitting):
    kind = f"<field var='FORM_TYPE'><value>{FORM_TYPE}</value></field>"
    form = f"<x xmlns='{ns.DATA}' type='submit'>{kind}<field var='node'><value>jobs</value></field></x>"
    asked = sitting.send("pause", inner=form)
    assert isinstance(asked.request, Configure)
    with capture_logs() as logs:
        answer = said(asked, Done())
    assert [line["operation"] for line in logs] == ["pause"]
    assert answer.get("status") == "completed"
    assert len(sitting.handler.sessions) == 0
    assert asked.refused(Refused(Refusal.FORBIDDEN)) is None


def test_a_page_for_programs_ends_where_a_stanza_would_be_too_large(sitting):
    kind = f"<field var='FORM_TYPE'><value>{FORM_TYPE}</value></field>"
    form = f"<x xmlns='{ns.DATA}' type='submit'>{kind}</x>"
    titled = queue(title="t" * 1_000)
    entries = tuple(
        NodeEntry(replace(titled, name=f"n{number:04}"), 1, 2, 3, 4, 5) for number in range(900)
    )
    asked = sitting.send("queues", inner=form)
    answer = asked.write(NodePage(entries, more=False, now=NOW), "q").decode()
    assert len(answer) < MAX_ANSWER_BYTES
    shown = parse(answer)
    names = [one.findtext("{*}field[@var='node']/{*}value") for one in shown.iter("{*}item")]
    facts = {one.get("var"): one.findtext("{*}value") for one in shown.findall("{*}x/{*}field")}
    assert 100 < len(names) < 900
    assert (facts["through"], facts["more"]) == (names[-1], "1")


def test_two_steps_at_once_are_one_too_many(sitting):
    session, _ = sitting.begun("pause", MINE)
    first = sitting.send("pause", session=session, node="jobs")
    assert sitting.send("pause", session=session, node="jobs") is BUSY
    assert first.refused(Refused(Refusal.FORBIDDEN)) is None
    assert isinstance(sitting.send("pause", session=session, node="jobs"), Asked)


def test_a_command_that_ends_before_a_form_leaves_no_session(sitting):
    sitting.send("pause").refused(Refused(Refusal.FORBIDDEN))
    sitting.begun("pause", Powers((Power.NODES,)))  # nothing to pause: completed at once
    assert len(sitting.handler.sessions) == 0


def test_what_waits_for_too_long_has_expired(sitting):
    session, _ = sitting.begun("pause", MINE)
    sitting.now += AGE + 1
    error = sitting.send("pause", session=session, node="jobs")
    assert (error.condition, error.detail) == ("not-allowed", "session-expired")


def test_a_form_is_filled_in_with_so_much_and_no_more(sitting):
    session, _ = sitting.begun("redrive", MINE)
    error = sitting.send("redrive", session=session, node="jobs", item="x" * MAX_FORM_LENGTH)
    assert isinstance(error, StanzaError)
    assert (error.condition, error.detail) == ("bad-request", "bad-payload")


def a_page(*names, more):
    entries = tuple(NodeEntry(queue(name=name), 0, 0, 0, 0, 0) for name in names)
    return NodePage(entries, more=more, now=NOW)


def test_a_long_table_continues_until_the_user_stops_it(sitting):
    session, shown = sitting.begun("queues", a_page("a", "b", more=True))
    assert (shown.get("status"), actions(shown)) == ("executing", ["next", "complete"])
    more = sitting.send("queues", session=session, action="next")
    assert more.request == ReadNodes(BOSS, "b", managed=True)
    shown = said(more, a_page("c", more=True))
    more = sitting.send("queues", session=session)
    assert more.request == ReadNodes(BOSS, "c", managed=True)
    assert said(more, a_page("d", more=False)).get("status") == "completed"
    assert len(sitting.handler.sessions) == 0


def test_or_ends_where_it_is_ended(sitting):
    session, _ = sitting.begun("queues", a_page("a", more=True))
    answer = parse(sitting.send("queues", session=session, action="complete").decode())
    assert (answer.get("status"), len(answer)) == ("completed", 0)
    assert len(sitting.handler.sessions) == 0


def test_to_go_back_forgets_what_was_filled_in_since(sitting):
    session, _ = sitting.begun("purge", MINE)
    step = sitting.send("purge", session=session, node="other")
    assert step.request.node == "other"
    step.refused(Refused(Refusal.NODE_NOT_FOUND))
    step = sitting.send("purge", session=session, node="jobs")
    said(step, Described(queue()))
    said(sitting.send("purge", session=session, action="prev"), MINE)
    step = sitting.send("purge", session=session, node="third")
    assert step.request.node == "third"
