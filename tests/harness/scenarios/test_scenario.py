from pathlib import Path

import pytest
from harness.scenarios.scenario import (
    Error,
    Nothing,
    Receive,
    Refused,
    Scenario,
    ScenarioError,
    Send,
    TakenIn,
    Upset,
    read,
)
from harness.servers.stub_server import parse

ALL_STEPS = """
# A comment, and who takes part
the service is workflows.shakespeare.lit
bee is bee@shakespeare.lit/foo
ant is ant@shakespeare.lit/bar
the service is configured with:
    node_creation = "admins"

bee sends: <presence/>
bee receives:
    <message>
      <body/>
    </message>
bee receives exactly: <message/>
bee receives after 0.9 s or more: <message/>
one of bee, ant (as holder, idle) receives: <message/>
holder gets a result
idle is refused forbidden (auth)
idle is refused bad-request (modify) with nodeid-required or not-acceptable (modify)
idle is refused feature-not-implemented (cancel) with unsupported publish
bee receives nothing
nobody receives anything
the service has taken it in
the service restarts
the service is killed and started again
the connection is lost
"""


def test_every_step_is_read():
    scenario = read(ALL_STEPS)
    assert scenario.service == "workflows.shakespeare.lit"
    assert scenario.config.strip() == 'node_creation = "admins"'
    assert scenario.cast == {"bee": "bee@shakespeare.lit/foo", "ant": "ant@shakespeare.lit/bar"}
    steps = scenario.steps
    assert [type(step) for step in steps] == [
        *(Send, Receive, Receive, Receive, Receive, Receive, Refused, Refused, Refused),
        *(Nothing, Nothing, TakenIn, Upset, Upset, Upset),
    ]
    assert steps[0] == Send(9, "bee sends", "bee", "<presence/>")
    assert "<body/>" in steps[1].xml
    assert steps[2].exactly
    assert steps[3].after == 0.9
    assert (steps[4].who, steps[4].roles) == (("bee", "ant"), ("holder", "idle"))
    assert steps[7].errors == (
        Error("bad-request", "modify", "nodeid-required"),
        Error("not-acceptable", "modify"),
    )
    assert steps[8].errors == (
        Error("feature-not-implemented", "cancel", "unsupported", "publish"),
    )
    assert [step.what for step in steps[-3:]] == ["restart", "kill", "cut"]


@pytest.mark.parametrize(
    "phrase",
    [
        "bee creates the queue jobs",
        "bee creates the plain node news with pubsub#title=News, pubsub#max_items=5",
        "bee subscribes to jobs with 1 request",
        "bee subscribes its account to jobs with 5 requests",
        "bee unsubscribes from jobs",
        "bee publishes a1 a2 to jobs",
        "bee receives item a1 of jobs",
        "bee receives item a1 of jobs, after 0.9 s or more",
        "one of bee, ant (as holder, idle) receives item a1 of jobs",
        "bee asks to retract a1 a2 of jobs",
        "bee retracts a1 of jobs",
        "bee unlocks a1 of jobs",
        "bee is told that a1 of jobs is retracted",
        "bee is told that a1 of jobs is unlocked, after 0.9 s or more",
        "bee becomes unavailable",
    ],
)
def test_every_phrase_is_steps_with_well_formed_stanzas(phrase):
    steps = read(f"bee is bee@localhost/x\nant is ant@localhost/y\n{phrase}").steps
    stanzas = [parse(step.xml) for step in steps if isinstance(step, Send | Receive)]
    assert stanzas


def test_a_settled_item_is_requested_answered_and_notified():
    steps = read("bee is bee@localhost/x\nbee unlocks a1 of jobs").steps
    assert [type(step) for step in steps] == [Send, Receive, Receive]
    assert "unlock xmlns='urn:xmpp:pubsub:queueing:0' id='a1'" in steps[2].xml


@pytest.mark.parametrize(
    "line",
    ["bee dances", "wasp sends: <presence/>", "wasp receives nothing", "bee retracts a1"],
)
def test_what_makes_no_sense_is_named_by_its_line(line):
    with pytest.raises(ScenarioError, match="line 2"):
        read(f"bee is bee@localhost/x\n{line}")


def test_a_scenario_begins_empty():
    assert read("# nothing\n") == Scenario()


def test_every_scenario_in_the_folder_can_be_read():
    for path in Path(__file__).parents[2].glob("scenarios/*.txt"):
        assert read(path.read_text()).steps, path.name
