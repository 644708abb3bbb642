import pytest
from harness.batches.clock import Clock
from harness.scenarios.network import Stub
from harness.scenarios.scenario import read
from harness.scenarios.scenario_player import ScenarioPlayer
from harness.servers.scripted_component import fake_component
from harness.servers.stub_server import StubServer

BEE = "bee@localhost/x"
CAST = "bee is bee@localhost/x\nant is ant@localhost/y\n"
ASKS = "bee sends: <iq type='get'><q xmlns='urn:q'/></iq>\n"


class Unmoved:
    """A component that is left alone."""

    def __init__(self):
        self.clock = Clock()

    async def start(self):
        raise NotImplementedError

    stop = kill = running = start

    async def leap(self, within):
        self.clock.advance(within)


def answering(*texts):
    """Answer the probe, and all others with the texts, the id of the request filled in."""

    def script(stanza):
        asked = {"id": stanza.get("id"), "to": stanza.get("from"), "from": stanza.get("to")}
        probed = stanza.get("from").startswith("probe")
        return [text.format_map(asked) for text in ([RESULT] if probed else texts)]

    return script


def anything(_stanza):
    """Check nothing: these stanzas are made up."""


async def play(text, *answers, validate=anything):
    async with (
        StubServer(validate=anything) as server,
        fake_component(server.port, answering(*answers)),
    ):
        await server.connected()
        scenario = read(CAST + text)
        await ScenarioPlayer(scenario, Stub(scenario, server), Unmoved(), validate).play()


RESULT = "<iq type='result' id='{id}' to='{to}' from='{from}'/>"
REFUSAL = (
    "<iq type='error' id='{id}' to='{to}' from='{from}'><q xmlns='urn:q'/><error type='auth'>"
    "<forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
)
EVENT = (
    "<message id='{id}-m' to='{to}' from='{from}'><e xmlns='urn:e'/>"
    "<no-store xmlns='urn:xmpp:hints'/></message>"
)


async def test_what_was_sent_counts_as_sent():
    await play(f"{ASKS}bee gets a result", RESULT)
    await play(f"{ASKS}bee is refused forbidden (auth)", REFUSAL)


async def test_additions_beside_the_event_count_only_if_the_scenario_has_them():
    reported = "<message><e xmlns='urn:e'/></message>"
    await play(f"{ASKS}bee gets a result\nbee receives: {reported}", RESULT, EVENT)
    with pytest.raises(AssertionError, match="no-store"):
        await play(f"{ASKS}bee gets a result\nbee receives exactly: {reported}", RESULT, EVENT)


async def test_a_stanza_to_an_account_is_for_the_first_of_its_resources():
    text = f"{ASKS}bee gets a result\nbee receives: <message to='bee@localhost' id='m'/>"
    await play(text, RESULT, "<message id='m' to='bee@localhost' from='queue.localhost'/>")


async def test_one_of_several_receives_and_is_known_by_its_role():
    text = f"""{ASKS}
bee gets a result
one of ant, bee (as holder, idle) receives: <message to='{{holder}}'><e xmlns='urn:e'/></message>
idle receives nothing
"""
    to_ant = EVENT.replace("to='{to}'", "to='ant@localhost/y'").replace("{id}", "1")
    await play(text, RESULT, to_ant)
    with pytest.raises(AssertionError, match="id used twice"):
        await play(text, RESULT, to_ant, to_ant)


@pytest.mark.parametrize(
    ("text", "answers", "reason"),
    [
        (f"{ASKS}bee gets a result", [REFUSAL], "forbidden"),
        (f"{ASKS}bee is refused conflict (cancel)", [REFUSAL], "conflict"),
        (f"{ASKS}bee gets a result", [RESULT, RESULT], "answered twice"),
        (f"{ASKS}nobody receives anything", [RESULT], "bee receives"),
        (f"{ASKS}ant receives nothing", [RESULT], "at the end nobody receives"),
        (ASKS, [], "never answered"),
        (f"{ASKS}bee gets a result", [RESULT.replace("{to}", "wasp@localhost/z")], "wasp"),
        (f"{ASKS}bee receives after 5 s or more: <iq type='result'/>", [RESULT], "too soon"),
    ],
)
async def test_an_item_that_was_not_notified_is_not_skipped(text, answers, reason):
    with pytest.raises(AssertionError, match=reason):
        await play(text, *answers)


async def test_an_invalid_stanza_fails_the_scenario():
    def refuse(tree):
        assert tree.tag.endswith("message"), "not valid"

    with pytest.raises(AssertionError, match="not valid"):
        await play(f"{ASKS}bee gets a result", RESULT, validate=refuse)


async def test_of_several_the_holder_counts_and_not_the_quickest():
    text = f"""{ASKS}
bee gets a result
one of bee, ant (as first, second) receives: <message id='1'/>
second receives: <message id='2'/>
"""
    second = f"<message id='2' to='{BEE}' from='queue.localhost'/>"
    first = "<message id='1' to='ant@localhost/y' from='queue.localhost'/>"
    await play(text, RESULT, second, first)


async def test_an_item_for_a_worker_that_has_left_is_returned():
    heard = []

    def script(stanza):
        heard.append((stanza.get("from"), stanza.get("type"), stanza.get("id")))
        to_ant = "<message id='m' to='ant@localhost' from='queue.localhost'/>"
        return (
            [to_ant, *answering(RESULT)(stanza)] if stanza.get("from") == BEE else respond(stanza)
        )

    def respond(stanza):
        return answering(RESULT)(stanza) if stanza.tag.endswith("}iq") else []

    text = f"ant sends: <presence/>\nant logs out\n{ASKS}bee gets a result\nant logs in\n"
    async with StubServer() as server, fake_component(server.port, script):
        await server.connected()
        scenario = read(CAST + text)
        await ScenarioPlayer(scenario, Stub(scenario, server), Unmoved(), lambda _tree: None).play()
    assert [it for it in heard if it[0] and it[0].startswith("ant")] == [
        ("ant@localhost/y", None, None),
        ("ant@localhost/y", "unavailable", None),
        ("ant@localhost", "error", "m"),
    ]
