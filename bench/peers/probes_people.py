"""Probes of accounts: access, affiliations, and subscription options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bench.peers.service import FORM, NotDoneError, has, owner, plain, publication, submit

if TYPE_CHECKING:
    from bench.peers.service import Service


async def whitelist(it: Service) -> bool:
    """A closed node accepts only accounts that its owner lists (4.5)."""
    node = await it.create(access_model="whitelist")
    child = plain(f"<subscribe node='{node}' jid='{it.jid('bob')}'/>")
    no = await it.refuses("bob", "set", child)
    await it.affiliate(node, "bob", "member")
    await it.subscribe(node)
    return no


async def authorize(it: Service) -> bool:
    """An owner gets a form for a pending subscription, and answers it (8.6)."""
    node = await it.create(access_model="authorize")
    if (await it.subscribe(node)).get("subscription") != "pending":
        return False
    forms = [form for message in await it.heard("ann") for form in message.iter(f"{{{FORM}}}x")]
    fields = {f.get("var"): f.findtext("{*}value") for form in forms for f in form.iter("{*}field")}
    if fields.get("pubsub#node") != node:
        return False
    await it.say("ann", f"<message to='{it.address}'>{_allowed(fields)}</message>")
    await it.heard("ann")
    await it.publish(node, "a")
    return bool(await it.events("bob", node))


def _allowed(fields: dict[str | None, str | None]) -> str:
    said = {str(var): str(value) for var, value in fields.items() if var != "FORM_TYPE"}
    return submit("subscribe_authorization", said | {"pubsub#allow": "true"})


async def get_pending(it: Service) -> bool:
    """An owner lists pending subscriptions with a command (8.7)."""
    node = await it.create(access_model="authorize")
    await it.subscribe(node)
    command = "http://jabber.org/protocol/pubsub#get-pending"
    child = (
        f"<command xmlns='http://jabber.org/protocol/commands' node='{command}' action='execute'/>"
    )
    answer = await it.does("ann", "set", child)
    return node in {value.text for value in answer.iter("{*}value")}


async def presence_model(it: Service) -> bool:
    """Only contacts of the owner may subscribe (access model presence)."""
    node = await it.create(access_model="presence")
    child = plain(f"<subscribe node='{node}' jid='{it.jid('cat')}'/>")
    no = await it.refuses("cat", "set", child, "presence-subscription-required")
    return no and await it.comes_true(lambda: _let_in(it, node))


async def roster_model(it: Service) -> bool:
    """Only contacts in a group of the owner's roster may subscribe (access model roster)."""
    node = await it.create(access_model="roster", roster_groups_allowed="friends")
    child = plain(f"<subscribe node='{node}' jid='{it.jid('cat')}'/>")
    no = await it.refuses("cat", "set", child, "not-in-roster-group")
    return no and await it.comes_true(lambda: _let_in(it, node))


async def _let_in(it: Service, node: str) -> bool:
    """Let Bob see Ann's presence, and be a friend in her roster; return whether he may now subscribe."""
    ann, bob = (it.jid(who).partition("/")[0] for who in ("ann", "bob"))
    await it.say("ann", ROSTER.format(bob=bob))
    await it.say("bob", f"<presence to='{ann}' type='subscribe'/>")
    await it.say("ann", f"<presence to='{bob}' type='subscribed'/>")
    child = plain(f"<subscribe node='{node}' jid='{it.jid('bob')}'/>")
    return not await it.refuses("bob", "set", child)


ROSTER = """
<iq type='set' id='befriend'><query xmlns='jabber:iq:roster'>
  <item jid='{bob}'><group>friends</group></item>
</query></iq>"""


async def open_publishing(it: Service) -> bool:
    """Every account may publish, or only publishers (publish_model)."""
    shut, free = await it.create(publish_model="publishers"), await it.create(publish_model="open")
    no = await it.refuses("bob", "set", publication(shut, "a"), "forbidden")
    await it.publish(free, "a", who="bob")
    return no


async def subscribers_publish(it: Service) -> bool:
    """Subscribers may publish (publish_model)."""
    node = await it.create(publish_model="subscribers")
    no = await it.refuses("bob", "set", publication(node, "a"), "forbidden")
    await it.subscribe(node)
    await it.publish(node, "a", who="bob")
    return no


async def publish_only(it: Service) -> bool:
    """An account may publish but not read (4.1)."""
    node = await it.create()
    await it.affiliate(node, "bob", "publish-only")
    await it.publish(node, "a", who="bob")
    return await it.refuses("bob", "get", plain(f"<items node='{node}'/>"))


async def outcast(it: Service) -> bool:
    """An outcast is excluded from an open node, and loses the subscription (4.1)."""
    node = await it.create()
    await it.subscribe(node)
    await it.affiliate(node, "bob", "outcast")
    await it.publish(node, "a")
    reported = [found for found in await it.events("bob", node) if has(found, "item")]
    return not reported and await it.refuses("bob", "get", plain(f"<items node='{node}'/>"))


async def last_owner(it: Service) -> bool:
    """A node always has an owner (8.9.2.4)."""
    node, account = await it.create(), it.jid("ann").partition("/")[0]
    entry = f"<affiliation jid='{account}' affiliation='none'/>"
    await it.ask("ann", "set", owner(f"<affiliations node='{node}'>{entry}</affiliations>"))
    listed = await it.does("ann", "get", owner(f"<affiliations node='{node}'/>"))
    return account in {one.get("jid") for one in listed.iter("{*}affiliation")}


async def manage_subscriptions(it: Service) -> bool:
    """An owner lists the subscriptions and ends one (8.8)."""
    node = await it.create()
    await it.subscribe(node)
    listed = await it.does("ann", "get", owner(f"<subscriptions node='{node}'/>"))
    found = [one for one in listed.iter("{*}subscription") if one.get("jid") == it.jid("bob")]
    entry = f"<subscription jid='{it.jid('bob')}' subscription='none'/>"
    await it.does("ann", "set", owner(f"<subscriptions node='{node}'>{entry}</subscriptions>"))
    return len(found) == 1 and not await it.is_subscribed(node)


async def subscription_notified(it: Service) -> bool:
    """An account that an owner subscribes or unsubscribes is notified (8.8.4, 12.14)."""
    node = await it.create()
    await it.subscribe(node)
    entry = f"<subscription jid='{it.jid('bob')}' subscription='none'/>"
    await it.does("ann", "set", owner(f"<subscriptions node='{node}'>{entry}</subscriptions>"))
    return any(has(message, "subscription") for message in await it.heard("bob"))


async def options(it: Service) -> bool:
    """A subscriber can pause events (deliver, 6.3)."""
    node = await it.create()
    await it.subscribe(node)
    await _option(it, node, "deliver", "0")
    await it.publish(node, "a")
    silent = not await it.events("bob", node)
    await _option(it, node, "deliver", "1")
    await it.publish(node, "b")
    return silent and bool(await it.events("bob", node))


async def _option(it: Service, node: str, name: str, value: str) -> None:
    form = submit("subscribe_options", {f"pubsub#{name}": value})
    words = f"node='{node}' jid='{it.jid('bob')}'"
    await it.does("bob", "set", plain(f"<options {words}>{form}</options>"))


async def default_options(it: Service) -> bool:
    """The default options of a subscription can be read (6.4)."""
    node = await it.create()
    answer = await it.does("bob", "get", plain(f"<default node='{node}'/>"))
    return answer.find(f".//{{{FORM}}}x") is not None


async def lease(it: Service) -> bool:
    """A subscription ends at a given time (expire, 12.19)."""
    node, end = await it.create(), datetime.now(UTC) + timedelta(seconds=2)
    form = submit("subscribe_options", {"pubsub#expire": end.strftime("%Y-%m-%dT%H:%M:%SZ")})
    await it.subscribe(node, options=form)
    if not await it.is_subscribed(node):
        return False

    async def over() -> bool:
        return not await it.is_subscribed(node)

    return await it.comes_true(over)


async def temporary(it: Service) -> bool:
    """A subscription ends when its subscriber leaves (tempsub, 12.5)."""
    node = await it.create(tempsub=True)
    await it.come("bob")
    await it.subscribe(node)
    await it.leave("bob")

    async def over() -> bool:
        return not await it.is_subscribed(node)

    try:
        return await it.comes_true(over)
    finally:
        await it.come("bob")


async def while_present(it: Service) -> bool:
    """Events are sent only while a subscriber is available (presence_based_delivery)."""
    node = await it.create(presence_based_delivery=True)
    await it.come("bob")
    await it.subscribe(node)
    await it.publish(node, "a")
    there = bool(await it.events("bob", node))
    await it.leave("bob")
    await it.is_subscribed(node)
    await it.publish(node, "b")
    silent = not await it.events("bob", node)
    await it.come("bob")
    return there and silent


async def _with_two(it: Service, node: str) -> str | None:
    """Return the node if a second subscription of a JID has its own id."""
    first, second = await it.subscribe(node), await it.subscribe(node)
    subids = {first.get("subid"), second.get("subid")}
    return None if None in subids or len(subids) < 2 else node


async def several(it: Service) -> bool:
    """One JID subscribes twice, with different subscription ids (multi-subscribe, 6.1.6).

    A service may require a setting for this: ours has a field of its own.
    """
    if (node := await _with_two(it, await it.create())) is None:
        node = await _with_two(it, await it.create(**{"x-pubsub#multi_subscribe": True}))
    if node is None:
        return False
    child = plain(f"<unsubscribe node='{node}' jid='{it.jid('bob')}'/>")
    return await it.refuses("bob", "set", child, "subid-required")


async def not_subscribable(it: Service) -> bool:
    """An owner can switch off subscriptions to a node (subscribe, 6.1.3.10)."""
    node = await it.create(subscribe=False)
    try:
        await it.subscribe(node)
    except NotDoneError:
        return True
    return False
