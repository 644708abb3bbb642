"""Privileges at a node: every cell of XEP-0060's table 1, with rules and store together."""

import pytest
from harness.batches.facts import BOSS, ETL, JOBS, who
from harness.batches.queue_requests import joins, publishes, retracts
from harness.batches.shell import Shell

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete, Purge, SetAffiliations
from pubqueue.rules.retrieve import Retrieve

PRIVILEGES = """
              subscribe  retrieve  publish  delete-item  purge  configure  delete-node
owner         yes        yes       yes      yes          yes    yes        yes
publisher     yes        yes       yes      no           no     no         no
publish-only  no         no        yes      no           no     no         no
member        yes        yes       no       no           no     no         no
none          no         no        no       no           no     no         no
outcast       no         no        no       no           no     no         no
"""
NO = {Refusal.FORBIDDEN, Refusal.CLOSED_NODE, Refusal.NOT_YOURS}
ANN = "ann@x/1"
ASK = {
    "subscribe": joins(ANN),
    "retrieve": Retrieve(who(ANN), JOBS, (ItemId("i1"),)),
    "publish": publishes("i2", by=ANN),
    "delete-item": retracts(ANN, "i1"),
    "purge": Purge(who(ANN), JOBS),
    "configure": Configure(who(ANN), JOBS, Settings({"title": "work"})),
    "delete-node": Delete(who(ANN), JOBS),
}


def privileges():
    head, *rows = PRIVILEGES.strip().splitlines()
    for row in rows:
        affiliation, *answers = row.split()
        for action, answer in zip(head.split(), answers, strict=True):
            yield (affiliation, action), answer == "yes"


def tried(folder, affiliation, action, queueing):
    """Let an account with this affiliation ask: return whether it may, or what is wrong with the refusal."""
    shell = Shell(folder / f"{affiliation}-{action}.db")
    wanted = Settings({"access_model": "whitelist", "queueing": queueing})
    made = Declare(who(BOSS, admin=True), JOBS, wanted, (Jid("boss@x"),), (Jid("etl@x"),))
    named = SetAffiliations(who(BOSS), JOBS, ((Jid("ann@x"), Affiliation(affiliation)),))
    shell.batch(made, publishes("i1", by=ETL), named)
    before = shell.dump()
    reply = shell.do(
        plainly(ASK[action]) if (queueing, action) == ("0", "subscribe") else ASK[action]
    )
    changed = shell.dump() != before
    shell.close()
    if not isinstance(reply, Refused):
        return True
    return f"changed by {reply}" if changed else reply if reply.refusal not in NO else False


@pytest.mark.covers("L-002")
@pytest.mark.parametrize("queueing", ["0", "1"])
def test_the_privileges_are_those_of_the_table(tmp_path, queueing):
    expected = dict(privileges())
    assert {cell: tried(tmp_path, *cell, queueing) for cell in expected} == expected


def plainly(subscribe):
    """Subscribe to a node that has no window."""
    return type(subscribe)(subscribe.by, subscribe.node, subscribe.jid, subscribe.subid)
