"""Probes of items: storage, retrieval and notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.service import RSM, NotDoneError, has, plain, publication

if TYPE_CHECKING:
    from bench.peers.service import Service


async def pages(it: Service) -> bool:
    """Items come in pages, without gap or overlap, with their count (RSM, 6.5.4)."""
    node, names = await it.create(max_items=10), ["a", "b", "c", "d", "e"]
    await it.publish(node, *names)
    found: list[str] = []
    after = ""
    while True:
        inner = f"<set xmlns='{RSM}'><max>2</max>{after}</set>"
        answer = await it.does("bob", "get", plain(f"<items node='{node}'/>{inner}"))
        page, reported = (
            [item.get("id") for item in answer.iter("{*}item")],
            answer.find(f".//{{{RSM}}}set"),
        )
        if len(page) > 2 or reported is None or reported.findtext("{*}count") != "5":
            return False
        if not page or len(found) > 5:
            return sorted(found) == names
        found += page
        after = f"<after>{reported.findtext('{*}last')}</after>"


async def newest(it: Service) -> bool:
    """The newest items can be requested (6.5.7)."""
    node = await it.create(max_items=10)
    await it.publish(node, "a", "b", "c")
    return set(await it.ids(node, max_items=2)) == {"b", "c"}


async def several_by_id(it: Service) -> bool:
    """Items can be requested by id; missing ones are left out (6.5.6)."""
    node = await it.create(max_items=10)
    await it.publish(node, "a", "b", "c")
    inner = "<item id='a'/><item id='c'/><item id='x'/>"
    answer = await it.does("bob", "get", plain(f"<items node='{node}'>{inner}</items>"))
    return {item.get("id") for item in answer.iter("{*}item")} == {"a", "c"}


async def order_by(it: Service) -> bool:
    """Items come in the order of their creation or of their last change (XEP-0413)."""
    node = await it.create(max_items=10)
    await it.publish(node, "a", "b", "c", "a")
    orders = []
    for field in ("creation", "modification"):
        inner = f"<order xmlns='urn:xmpp:order-by:1' by='{field}'/>"
        orders.append(await it.ids(node, inner=inner))
    return orders in ([["c", "b", "a"], ["a", "c", "b"]], [["a", "b", "c"], ["b", "c", "a"]])


async def oldest_dropped(it: Service) -> bool:
    """A full node drops its oldest item (max_items)."""
    node = await it.create(max_items=2)
    await it.publish(node, "a", "b", "c")
    return set(await it.ids(node)) == {"b", "c"}


async def lowered(it: Service) -> bool:
    """A smaller max_items drops the oldest items at once."""
    node = await it.create(max_items=5)
    await it.publish(node, "a", "b", "c")
    await it.configure(node, max_items=1)
    return await it.ids(node) == ["c"]


async def full_rejects(it: Service) -> bool:
    """A full node may refuse instead (publish_node_full)."""
    node = await it.create(max_items=1, publish_node_full="reject")
    await it.publish(node, "a")
    no = await it.refuses("ann", "set", publication(node, "b"), "node-full")
    return no and await it.ids(node) == ["a"]


async def expiry(it: Service) -> bool:
    """Items expire (item_expire)."""
    node = await it.create(item_expire=1)
    await it.publish(node, "a")

    async def gone() -> bool:
        return not await it.ids(node)

    return await it.comes_true(gone)


async def retract(it: Service) -> bool:
    """An item is retracted, and subscribers are notified if requested (7.2.2.1)."""
    node = await it.create()
    await it.publish(node, "a")
    await it.subscribe(node)
    child = f"<retract node='{node}' notify='true'><item id='a'/></retract>"
    await it.does("ann", "set", plain(child))
    return any(has(found, "retract") for found in await it.events("bob", node))


async def batch(it: Service) -> bool:
    """One request publishes several items, all or none (12.11)."""
    node = await it.create(max_items=10)
    items = "".join(f"<item id='{name}'><a xmlns='urn:a'/></item>" for name in "abc")
    await it.does("ann", "set", plain(f"<publish node='{node}'>{items}</publish>"))
    return sorted(await it.ids(node)) == ["a", "b", "c"]


async def payload_type(it: Service) -> bool:
    """A payload in another namespace than the node's is refused (7.1.3.6)."""
    node = await it.create(type="urn:jobs")
    return await it.refuses("ann", "set", publication(node, "a"), "invalid-payload")


async def payload_size(it: Service) -> bool:
    """A payload that is too large is refused (7.1.3.5)."""
    node = await it.create(max_payload_size=200)
    large = f"<a xmlns='urn:a'>{'x' * 400}</a>"
    return await it.refuses("ann", "set", publication(node, "a", payload=large), "payload-too-big")


async def without_payloads(it: Service) -> bool:
    """Events come without payloads, which are fetched (deliver_payloads)."""
    node = await it.create(deliver_payloads=False)
    await it.subscribe(node)
    await it.publish(node, "a")
    items = [item for found in await it.events("bob", node) for item in found.iter("{*}item")]
    return [(item.get("id"), len(item)) for item in items] == [("a", 0)] and bool(
        await it.ids(node)
    )


async def transient(it: Service) -> bool:
    """A node announces items and keeps none (persist_items)."""
    node = await it.create(persist_items=False)
    await it.subscribe(node)
    await it.publish(node, "a", "b")
    reported = [
        item.get("id") for found in await it.events("bob", node) for item in found.iter("{*}item")
    ]
    kept = await it.ask("ann", "get", plain(f"<items node='{node}'/>"))
    return reported == ["a", "b"] and not any(
        item.get("id") == "a" for item in kept.iter("{*}item")
    )


async def last_item(it: Service) -> bool:
    """A new subscriber gets the last item (6.1.7)."""
    node = await it.create(send_last_published_item="on_sub")
    await it.publish(node, "a", "b")
    await it.subscribe(node)
    reported = [
        item.get("id") for found in await it.events("bob", node) for item in found.iter("{*}item")
    ]
    return reported == ["b"]


async def message_type(it: Service) -> bool:
    """Events are normal messages or headlines, as the node is configured (12.7)."""
    kinds = []
    for kind in ("normal", "headline"):
        node = await it.create(notification_type=kind)
        await it.subscribe(node)
        await it.publish(node, "a")
        kinds += [message.get("type", "normal") for message in await it.heard("bob")]
    return kinds == ["normal", "headline"]


async def publisher_named(it: Service) -> bool:
    """Events and answers name the publisher of an item, as known to the service (7.1.2.3)."""
    try:
        node = await it.create(publish_model="open", itemreply="publisher")
    except NotDoneError:
        node = await it.create(publish_model="open")
    await it.subscribe(node)
    child = publication(node, "a").replace("<item ", "<item publisher='eve@localhost' ")
    await it.does("cat", "set", child)
    reported = [item for found in await it.events("bob", node) for item in found.iter("{*}item")]
    publishers = [str(item.get("publisher")).partition("/")[0] for item in reported]
    return publishers == [it.jid("cat").partition("/")[0]]


async def queueing(it: Service) -> bool:
    """Each item goes to one of the subscribers (XEP-0254)."""
    node = await it.create(x_enabled=True, access_model="open")
    for who in ("bob", "cat"):
        form = "<field var='pubsub#queue_requests'><value>5</value></field>"
        await it.subscribe(
            node, who, f"<x xmlns='jabber:x:data' type='submit'>{SUBSCRIBE}{form}</x>"
        )
    await it.publish(node, "a", "b")
    bob, cat = await it.events("bob", node), await it.events("cat", node)
    return (len(bob), len(cat)) == (1, 1)


async def transactions(it: Service) -> bool:
    """Items of a batch appear when it is committed, all or none."""
    node, ours = await it.create(), "urn:x-pubqueue:0"
    mark = f"<txn xmlns='{ours}' app='probe' version='1' part='0' attempt='0'/>"
    await it.publish(node, "a", beside=mark)
    if await it.ids(node):
        return False
    part = "<part n='0' attempt='0' items='1' bytes='1'/>"
    await it.does("ann", "set", f"<commit xmlns='{ours}' app='probe' version='1'>{part}</commit>")
    return await it.ids(node) == ["a"]


FORM_TYPE = "http://jabber.org/protocol/pubsub#subscribe_options"
SUBSCRIBE = f"<field var='FORM_TYPE' type='hidden'><value>{FORM_TYPE}</value></field>"
