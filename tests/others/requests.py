"""The requests: each is asked of every service in the same words, and says what came of it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from harness.session import PUBSUB, condition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.session import Session
    from lxml import etree

    Probe = Callable[["Pair"], Awaitable[str]]

OWNER: Final = f"{PUBSUB}#owner"
DISCO: Final = "http://jabber.org/protocol/disco"
COMMANDS: Final = "http://jabber.org/protocol/commands"
RSM: Final = "http://jabber.org/protocol/rsm"
ENTRY: Final = "<entry xmlns='http://www.w3.org/2005/Atom'/>"

YES: Final = "yes"
NO: Final = "no"


class Pair:
    """An owner and a reader; each probe has nodes of its own."""

    def __init__(self, boss: Session, bee: Session) -> None:
        self.boss, self.bee = boss, bee
        self._numbers = itertools.count(1)

    async def owner(self, kind: str, inner: str) -> etree._Element:
        return await self.boss.ask(kind, f"<pubsub xmlns='{OWNER}'>{inner}</pubsub>")

    async def asks(self, who: Session, kind: str, inner: str) -> etree._Element:
        return await who.ask(kind, f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub>")

    async def create(self, **settings: object) -> tuple[str, etree._Element]:
        """Create a node, and return its name and the answer."""
        node = f"node{next(self._numbers)}"
        configure = f"<configure>{form('node_config', **settings)}</configure>" if settings else ""
        return node, await self.asks(self.boss, "set", f"<create node='{node}'/>{configure}")

    async def node(self, **settings: object) -> str:
        """Create a node that has to be there, open to all, with these settings as far as they are taken."""
        node, answer = await self.create()
        assert condition(answer) == "result", condition(answer)
        await self.owner(
            "set",
            f"<configure node='{node}'>{form('node_config', access_model='open', **settings)}</configure>",
        )
        return node

    async def publish(self, node: str, *names: str, more: str = "") -> etree._Element:
        items = "".join(f"<item id='{name}'>{ENTRY}</item>" for name in names)
        return await self.asks(self.boss, "set", f"<publish node='{node}'>{items}</publish>{more}")

    async def subscribe(self, node: str, options: str = "") -> etree._Element:
        inner = f"<subscribe node='{node}' jid='bee@localhost/x'/>{options}"
        return await self.asks(self.bee, "set", inner)

    async def ids(self, node: str) -> list[str]:
        answer = await self.asks(self.boss, "get", f"<items node='{node}'/>")
        return [item.get("id", "") for item in answer.iter(f"{{{PUBSUB}}}item")]


def form(name: str, **fields: object) -> str:
    inner = "".join(
        f"<field var='{var if '#' in var else f'pubsub#{var}'}'><value>{value}</value></field>"
        for var, value in fields.items()
    )
    head = f"<field var='FORM_TYPE' type='hidden'><value>{PUBSUB}#{name}</value></field>"
    return f"<x xmlns='jabber:x:data' type='submit'>{head}{inner}</x>"


def holds(done: object) -> str:
    return YES if done else NO


def is_result(answer: etree._Element) -> bool:
    return condition(answer) == "result"


async def models(pair: Pair, names: tuple[str, ...]) -> str:
    """Return which values of `access_model` a new node takes, and shows afterwards."""
    taken = []
    for name in names:
        node, answer = await pair.create(access_model=name)
        if not is_result(answer):
            continue
        shown = await pair.owner("get", f"<configure node='{node}'/>")
        value = shown.findtext(".//{*}field[@var='pubsub#access_model']/{*}value")
        if value == name:
            taken.append(name)
    return ", ".join(taken) or NO


async def access_models(pair: Pair) -> str:
    return await models(pair, ("open", "whitelist", "authorize", "presence", "roster"))


async def waits_for_approval(pair: Pair) -> str:
    node, answer = await pair.create(access_model="authorize")
    if not is_result(answer):
        return NO
    said = await pair.subscribe(node)
    return holds(said.find(f".//{{{PUBSUB}}}subscription[@subscription='pending']") is not None)


async def get_pending(pair: Pair) -> str:
    await pair.create(access_model="authorize")
    said = await pair.boss.ask(
        "set", f"<command xmlns='{COMMANDS}' node='{PUBSUB}#get-pending' action='execute'/>"
    )
    return holds(is_result(said))


async def several_subscriptions(pair: Pair) -> str:
    node = await pair.node()
    subids = set()
    for _ in range(2):
        found = (await pair.subscribe(node)).find(f".//{{{PUBSUB}}}subscription")
        subids.add(None if found is None else found.get("subid"))
    return holds(len(subids) == 2)


async def options(pair: Pair) -> str:
    node = await pair.node()
    await pair.subscribe(node)
    said = await pair.asks(pair.bee, "get", f"<options node='{node}' jid='bee@localhost/x'/>")
    shown = [field.get("var") for field in said.iter("{jabber:x:data}field")]
    return holds("pubsub#deliver" in shown)


async def leases(pair: Pair) -> str:
    node = await pair.node()
    wanted = form("subscribe_options", expire="2100-01-01T00:00:00Z")
    await pair.subscribe(node, f"<options>{wanted}</options>")
    said = await pair.asks(pair.bee, "get", f"<options node='{node}' jid='bee@localhost/x'/>")
    value = said.findtext(".//{*}field[@var='pubsub#expire']/{*}value") or ""
    return holds(value.startswith("2100"))


async def default_options(pair: Pair) -> str:
    return holds(is_result(await pair.asks(pair.bee, "get", "<default/>")))


async def default_settings(pair: Pair) -> str:
    return holds(is_result(await pair.owner("get", "<default/>")))


async def preconditions(pair: Pair) -> str:
    node = await pair.node()
    options = form("publish-options", access_model="whitelist")
    said = await pair.publish(node, "a", more=f"<publish-options>{options}</publish-options>")
    return holds(said.find(f".//{{{PUBSUB}#errors}}precondition-not-met") is not None)


async def auto_create(pair: Pair) -> str:
    return holds(is_result(await pair.publish("nowhere", "a")))


async def many_items(pair: Pair) -> str:
    node = await pair.node(max_items=10, persist_items=1)
    await pair.publish(node, "a", "b", "c")
    return holds(sorted(await pair.ids(node)) == ["a", "b", "c"])


async def drops_the_oldest(pair: Pair) -> str:
    node = await pair.node(max_items=2, persist_items=1)
    for name in "abc":
        await pair.publish(node, name)
    return holds(sorted(await pair.ids(node)) == ["b", "c"])


async def when_full(pair: Pair) -> str:
    """Return whether a full node refuses where that is asked for."""
    node = await pair.node(max_items=1, persist_items=1, publish_node_full="reject")
    await pair.publish(node, "a")
    said = await pair.publish(node, "b")
    return holds(said.find(f".//{{{PUBSUB}#errors}}node-full") is not None)


async def expiry(pair: Pair) -> str:
    node = await pair.node(item_expire=3600)
    shown = await pair.owner("get", f"<configure node='{node}'/>")
    value = shown.findtext(".//{*}field[@var='pubsub#item_expire']/{*}value")
    return holds(value == "3600")


async def pages(pair: Pair) -> str:
    node = await pair.node(max_items=10, persist_items=1)
    for name in "abc":
        await pair.publish(node, name)
    rsm = f"<set xmlns='{RSM}'><max>2</max></set>"
    said = await pair.asks(pair.boss, "get", f"<items node='{node}'/>{rsm}")
    items = list(said.iter(f"{{{PUBSUB}}}item"))
    return holds(len(items) == 2 and said.find(f".//{{{RSM}}}count") is not None)


async def metadata(pair: Pair) -> str:
    node = await pair.node()
    said = await pair.bee.ask("get", f"<query xmlns='{DISCO}#info' node='{node}'/>")
    shown = [field.get("var") for field in said.iter("{jabber:x:data}field")]
    return holds("pubsub#num_subscribers" in shown)


async def manages_subscriptions(pair: Pair) -> str:
    node = await pair.node()
    await pair.subscribe(node)
    said = await pair.owner("get", f"<subscriptions node='{node}'/>")
    return holds(said.find(f".//{{{OWNER}}}subscription") is not None)


async def affiliations(pair: Pair) -> str:
    node, taken = await pair.node(), []
    for name in ("publisher", "publish-only", "member", "outcast"):
        inner = f"<affiliation jid='bee@localhost' affiliation='{name}'/>"
        await pair.owner("set", f"<affiliations node='{node}'>{inner}</affiliations>")
        said = await pair.owner("get", f"<affiliations node='{node}'/>")
        if said.find(f".//{{*}}affiliation[@affiliation='{name}']") is not None:
            taken.append(name)
    return ", ".join(taken) or NO


async def redirect(pair: Pair) -> str:
    node = await pair.node()
    to = "<redirect uri='xmpp:pubsub.example.org?;node=there'/>"
    await pair.owner("set", f"<delete node='{node}'>{to}</delete>")
    said = await pair.subscribe(node)
    return holds("xmpp:pubsub.example.org?;node=there" in "".join(said.itertext()))


async def purge(pair: Pair) -> str:
    node = await pair.node()
    await pair.publish(node, "a")
    return holds(is_result(await pair.owner("set", f"<purge node='{node}'/>")))


async def type_filter(pair: Pair) -> str:
    said = await pair.boss.ask("get", f"<query xmlns='{DISCO}#info'/>")
    return holds(said.find(".//{*}feature[@var='urn:xmpp:pubsub-filter:0']") is not None)


async def commands(pair: Pair) -> str:
    """Return how many commands the owner of a node is offered."""
    await pair.node()
    said = await pair.boss.ask("get", f"<query xmlns='{DISCO}#items' node='{COMMANDS}'/>")
    return str(len(list(said.iter(f"{{{DISCO}#items}}item")))) if is_result(said) else NO


async def queueing(pair: Pair) -> str:
    said = await pair.boss.ask("get", f"<query xmlns='{DISCO}#info'/>")
    return holds(said.find(".//{*}feature[@var='urn:xmpp:pubsub:queueing:0']") is not None)


# fmt: off
REQUESTS: Final[dict[str, Probe]] = {
    "access models that a node takes (4.5)":                access_models,
    "affiliations that can be given (4.1)":                 affiliations,
    "a subscription that waits for an owner (8.6)":         waits_for_approval,
    "the waiting ones, by command (get-pending, 8.7)":      get_pending,
    "an owner sees all subscriptions (8.8)":                manages_subscriptions,
    "several subscriptions of one JID (6.1.6)":             several_subscriptions,
    "subscription options (6.3)":                           options,
    "subscriptions that end by themselves (12.19)":         leases,
    "the default options of a subscription (6.4)":          default_options,
    "the default settings of a node (8.3)":                 default_settings,
    "publish-options are preconditions (7.1.5)":            preconditions,
    "a publish makes the node (7.1.4)":                     auto_create,
    "several items in one publish (12.11)":                 many_items,
    "a plain node drops its oldest item (max_items)":       drops_the_oldest,
    "or refuses when it is full (publish_node_full)":       when_full,
    "items that end by themselves (item_expire), as a setting": expiry,
    "items in pages (XEP-0059)":                            pages,
    "metadata in disco#info (5.4)":                         metadata,
    "purge (8.5)":                                          purge,
    "a deleted node says where it went (8.4)":              redirect,
    "nodes by type (XEP-0462)":                             type_filter,
    "commands for owners (XEP-0050)":                       commands,
    "work queues (XEP-0254)":                               queueing,
}
# fmt: on


async def version(pair: Pair) -> str:
    """Return what program the service is."""
    said = await pair.boss.ask("get", "<query xmlns='jabber:iq:version'/>")
    return said.findtext(".//{jabber:iq:version}version") or ""
