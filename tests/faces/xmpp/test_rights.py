"""Who may do what to which node, cell by cell on the wire: the expectation is the table in `rights.txt`.

Affiliation x access model x publish model x kind of node x action; each cell gets a node of its own. A new access model
needs a row in each block of the table, a new action a line in ACTIONS and a block: a cell that is missing, or there
twice, fails the test.
"""

import asyncio
import itertools
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness.server import ACCEPT, StubServer

from pubqueue.app.askers import Askers
from pubqueue.config import load
from pubqueue.core.model import AccessModel, Affiliation, PublishModel
from pubqueue.faces.xmpp import XmppFace
from pubqueue.wiring import queue

TABLE = Path(__file__).with_name("rights.txt")
KINDS = ("plain", "queue")
BOSS = "boss@localhost/desk"
P, O = "http://jabber.org/protocol/pubsub", "http://jabber.org/protocol/pubsub#owner"  # noqa: E741 - as in the parser
DISCO, OURS = "http://jabber.org/protocol/disco", "urn:x-pubqueue:0"
ITEM = "<item id='{}'><job xmlns='urn:example:job'/></item>"


def form(name, **fields):
    inner = "".join(
        f"<field var='{var.replace('_0_', '#')}'><value>{value}</value></field>"
        for var, value in fields.items()
    )
    return (
        f"<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>"
        f"<value>{P}#{name}</value></field>{inner}</x>"
    )


def pubsub(inner, space=P):
    return f"<pubsub xmlns='{space}'>{inner}</pubsub>"


WINDOW = f"<options>{form('subscribe_options', pubsub_0_queue_requests=1)}</options>"
TITLE = form("node_config", pubsub_0_title="Another")
SOMEBODY = "<affiliation jid='new@localhost' affiliation='member'/>"

# fmt: off
ACTIONS = {
    "discover":                ("get", "<query xmlns='{DISCO}#info' node='{node}'/>"),
    "list items":              ("get", "<query xmlns='{DISCO}#items' node='{node}'/>"),
    "retrieve items":          ("get", pubsub("<items node='{node}'/>")),
    "subscribe":               ("set", pubsub("<subscribe node='{node}' jid='{who}'/>{options}")),
    "publish":                 ("set", pubsub("<publish node='{node}'>" + ITEM.format("new") + "</publish>")),
    "publish as a subscriber": ("set", pubsub("<publish node='{node}'>" + ITEM.format("new") + "</publish>")),
    "retract another's item":  ("set", pubsub("<retract node='{node}'><item id='old'/></retract>")),
    "retract one's own item":  ("set", pubsub("<retract node='{node}'><item id='own'/></retract>")),
    "read the settings":       ("get", pubsub("<configure node='{node}'/>", O)),
    "change the settings":     ("set", pubsub("<configure node='{node}'>" + TITLE + "</configure>", O)),
    "read the affiliations":   ("get", pubsub("<affiliations node='{node}'/>", O)),
    "change an affiliation":   ("set", pubsub("<affiliations node='{node}'>" + SOMEBODY + "</affiliations>", O)),
    "redrive":                 ("set", "<redrive xmlns='{OURS}' node='{node}'/>"),
    "read from outside":       ("get", "<items xmlns='{OURS}' node='{node}'/>"),
    "purge":                   ("set", pubsub("<purge node='{node}'/>", O)),
    "delete":                  ("set", pubsub("<delete node='{node}'/>", O)),
}

WORDS = {
    "ok":           "result",  # with what was asked for, where that is a list
    "nothing":      "result, empty",
    "pending":      "result, pending",
    "forbidden":    "auth forbidden",
    "closed":       "cancel not-allowed closed-node",
    "presence":     "auth not-authorized presence-subscription-required",
    "roster":       "auth not-authorized not-in-roster-group",
    "unsubscribed": "auth not-authorized not-subscribed",
}
"""What stands in the cells, and what it means on the wire."""
# fmt: on

PEOPLE = {affiliation: f"{affiliation.value}@localhost/x" for affiliation in Affiliation}


def cells():
    """Return the table: each cell with its word; a cell that is there twice fails."""
    found = {}
    for block in TABLE.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        actions, kinds, models = (
            [one.strip() for one in part.split(",")] for part in lines[0].split("|")
        )
        affiliations = [Affiliation(word) for word in lines[1].split()]
        for line in lines[2:]:
            access, *words = line.split()
            assert len(words) == len(affiliations), line
            which = itertools.product(actions, kinds, models, zip(affiliations, words, strict=True))
            for action, kind, model, (affiliation, word) in which:
                cell = action, kind, AccessModel(access), PublishModel(model), affiliation
                assert found.setdefault(cell, word) is word, f"twice: {cell}"
    return found


CELLS = cells()


def test_every_cell_is_there():
    wanted = itertools.product(ACTIONS, KINDS, AccessModel, PublishModel, Affiliation)
    assert set(CELLS) == set(wanted)
    assert set(CELLS.values()) <= set(WORDS)


class Service:
    """The service on a stream; whoever asks waits for the answer."""

    def __init__(self, server):
        self.server = server
        self._ids = itertools.count(1)
        self._nodes = itertools.count(1)

    async def ask(self, who, kind, body):
        name = f"n{next(self._ids)}"
        await self.server.send(
            f"<iq type='{kind}' id='{name}' from='{who}' to='queue.localhost'>{body}</iq>"
        )
        while True:
            stanza = (await self.server.receive()).tree
            if stanza.tag == f"{{{ACCEPT}}}iq" and stanza.get("id") == name:
                return stanza

    async def done(self, who, body, space=P):
        answer = await self.ask(who, "set", pubsub(body, space))
        assert answer.get("type") == "result", outcome(answer)

    async def a_node(self, kind, access, model):
        """Return a new node, with an affiliate of each kind and an item of the boss's."""
        node = f"{kind}{next(self._nodes)}"
        settings = {"pubsub_0_access_model": access.value, "pubsub_0_publish_model": model.value}
        if kind == "queue":
            settings["x-queueing_0_enabled"] = "1"
        config = form("node_config", **settings)
        await self.done(BOSS, f"<create node='{node}'/><configure>{config}</configure>")
        people = "".join(
            f"<affiliation jid='{jid.partition('/')[0]}' affiliation='{affiliation.value}'/>"
            for affiliation, jid in PEOPLE.items()
            if affiliation is not Affiliation.NONE
        )
        await self.done(BOSS, f"<affiliations node='{node}'>{people}</affiliations>", O)
        await self.done(BOSS, f"<publish node='{node}'>{ITEM.format('old')}</publish>")
        return node

    async def try_cell(self, action, kind, access, model, affiliation):
        """Return what comes of it, in the words of the table."""
        node, who = await self.a_node(kind, access, model), PEOPLE[affiliation]
        names = {"node": node, "who": who, "DISCO": DISCO, "OURS": OURS}
        names["options"] = WINDOW if kind == "queue" else ""
        if action == "publish as a subscriber":
            await self.ask(who, "set", ACTIONS["subscribe"][1].format_map(names))
        if action == "retract one's own item":
            await self.own_item(node, who, affiliation)
        iq_kind, body = ACTIONS[action]
        return outcome(await self.ask(who, iq_kind, body.format_map(names)))

    async def own_item(self, node, who, affiliation):
        """Let somebody have published an item while that was allowed."""
        account = who.partition("/")[0]
        for what in ("publisher", affiliation.value):
            if what == "publisher" and affiliation is Affiliation.OWNER:
                continue  # it may publish, and there is another owner
            each = f"<affiliation jid='{account}' affiliation='{what}'/>"
            await self.done(BOSS, f"<affiliations node='{node}'>{each}</affiliations>", O)
            if what == "publisher" or affiliation is Affiliation.OWNER:
                await self.done(who, f"<publish node='{node}'>{ITEM.format('own')}</publish>")


LISTS = {f"{{{DISCO}#items}}query", f"{{{P}}}items"}


def outcome(answer):
    """Return an answer as WORDS writes it."""
    if answer.get("type") == "result":
        lists = [one for one in answer.iter() if one.tag in LISTS]
        if lists and not len(lists[0]):
            return "result, empty"
        pending = answer.find(".//{*}subscription[@subscription='pending']")
        return "result" if pending is None else "result, pending"
    error = answer.find("{*}error")
    tags = [child.tag.rpartition("}")[2] for child in error if not child.tag.endswith("}text")]
    return " ".join([error.get("type"), *tags])


@asynccontextmanager
async def serving(folder):
    async with StubServer() as server:
        flags = {
            "jid": "queue.localhost",
            "secret": server.secret,
            "server": f"{server.host}:{server.port}",
            "store": "memory:",
        }
        told = load(None, flags, {})
        async with queue(told) as broker:
            face = XmppFace(
                broker,
                jid=told.jid,
                secret=told.shared_secret(),
                server=told.address(),
                askers=Askers(home="localhost"),
            )
            task = asyncio.create_task(face.run())
            await server.connected()
            yield Service(server)
            await face.stop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.mark.covers("K-006")
@pytest.mark.parametrize("action", ACTIONS)
async def test_everybody_may_do_what_the_table_says_and_nothing_else(action, tmp_path):
    async with serving(tmp_path) as service:
        wrong = {}
        for cell, word in CELLS.items():
            if cell[0] == action:
                found = await service.try_cell(*cell)
                if found != WORDS[word]:
                    wrong[cell[1:]] = f"{found}, not {WORDS[word]}"
    assert not wrong
