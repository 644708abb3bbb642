"""Probes of nodes: creation, configuration, discovery and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.service import DISCO, NotDoneError, form_of, has, owner, plain, publication, submit

if TYPE_CHECKING:
    from bench.peers.service import Service


async def instant_nodes(it: Service) -> bool:
    """A node without a name gets one (8.1.2)."""
    made = await it.does("ann", "set", plain("<create/>"))
    return bool(made.find(".//{*}create").get("node"))


async def create_and_configure(it: Service) -> bool:
    """Settings can be sent with the creation (8.1.3)."""
    return bool(await it.create(title="Jobs"))


async def default_configuration(it: Service) -> bool:
    """The default settings of a new node can be read (8.3)."""
    answer = await it.does("ann", "get", owner("<default/>"))
    return "pubsub#access_model" in form_of(answer)


async def auto_create(it: Service) -> bool:
    """A publish creates a missing node (7.1.4)."""
    node = it.name()
    await it.publish(node, "a")
    return await it.ids(node) == ["a"]


async def metadata(it: Service) -> bool:
    """disco#info of a node has its title and type (5.4)."""
    node = await it.create(title="Jobs", type="urn:jobs")
    form = await _metadata(it, node)
    return (form.get("pubsub#title"), form.get("pubsub#type")) == ("Jobs", "urn:jobs")


async def counted(it: Service) -> bool:
    """disco#info of a node has the number of subscribers (5.4)."""
    node = await it.create()
    await it.subscribe(node)
    return (await _metadata(it, node)).get("pubsub#num_subscribers") == "1"


async def _metadata(it: Service, node: str) -> dict[str, str]:
    return form_of(await it.does("bob", "get", f"<query xmlns='{DISCO}#info' node='{node}'/>"))


async def commands(it: Service) -> bool:
    """Owners get commands other than get-pending (XEP-0050)."""
    node = "http://jabber.org/protocol/commands"
    listed = await it.does("ann", "get", f"<query xmlns='{DISCO}#items' node='{node}'/>")
    names = {found.get("node", "") for found in listed.iter("{*}item")}
    return bool({name for name in names if not name.endswith("#get-pending")})


async def type_filter(it: Service) -> bool:
    """Nodes can be listed by payload type (XEP-0462)."""
    atom = await it.create(type="http://www.w3.org/2005/Atom")
    other = await it.create(type="urn:other")
    kind = "<field var='FORM_TYPE' type='hidden'><value>urn:xmpp:pubsub-filter:0</value></field>"
    wanted = "<field var='included-types'><value>http://www.w3.org/2005/Atom</value></field>"
    form = f"<x xmlns='jabber:x:data' type='submit'>{kind}{wanted}</x>"
    child = f"<query xmlns='{DISCO}#items'><filter xmlns='urn:xmpp:pubsub-filter:0'>{form}</filter></query>"
    listed = await it.does("bob", "get", child)
    names = {found.get("node") for found in listed.iter("{*}item")}
    return atom in names and other not in names


async def collections(it: Service) -> bool:
    """A node contains other nodes, and lists them (XEP-0248)."""
    parent = await it.create(node_type="collection")
    leaf = await it.create(collection=parent)
    listed = await it.does("bob", "get", f"<query xmlns='{DISCO}#items' node='{parent}'/>")
    return leaf in {found.get("node") for found in listed.iter("{*}item")}


async def configuration_notified(it: Service) -> bool:
    """Subscribers are notified of new settings (notify_config, 8.2.5.3)."""
    node = await it.create(notify_config=True)
    await it.subscribe(node)
    await it.configure(node, title="another")
    return any(found.tag.endswith("}configuration") for found in await it.events("bob", node))


async def redirect(it: Service) -> bool:
    """A deleted node redirects, in its event and in later answers (8.4.1, 6.1.3.11)."""
    node = await it.create()
    await it.subscribe(node)
    child = f"<delete node='{node}'><redirect uri='xmpp:elsewhere?;node=x'/></delete>"
    await it.does("ann", "set", owner(child))
    reported = [found for found in await it.events("bob", node) if has(found, "redirect")]
    later = plain(f"<subscribe node='{node}' jid='{it.jid('cat')}'/>")
    return bool(reported) and await it.refuses("cat", "set", later, "gone")


async def purge(it: Service) -> bool:
    """All items are removed at once, with one event (8.5)."""
    node = await it.create()
    await it.publish(node, "a", "b")
    await it.subscribe(node)
    await it.does("ann", "set", owner(f"<purge node='{node}'/>"))
    reported = [found.tag.partition("}")[2] for found in await it.events("bob", node)]
    return reported.count("purge") == 1 and not await it.ids(node)


async def publish_options(it: Service) -> bool:
    """A publish succeeds only if the node has the expected settings (7.1.5)."""
    node = await it.create(access_model="whitelist")
    wrong = f"<publish-options>{submit('publish-options', {'pubsub#access_model': 'open'})}</publish-options>"
    right = wrong.replace("open", "whitelist")
    no = await it.refuses(
        "ann", "set", publication(node, "a", beside=wrong), "precondition-not-met"
    )
    await it.does("ann", "set", publication(node, "b", beside=right))
    return no and await it.ids(node) == ["b"]


async def publish_options_create(it: Service) -> bool:
    """A node that a publish creates has the publisher's settings (7.1.5)."""
    node = it.name()
    options = submit("publish-options", {"pubsub#access_model": "whitelist"})
    await it.publish(node, "a", beside=f"<publish-options>{options}</publish-options>")
    form = form_of(await it.does("ann", "get", owner(f"<configure node='{node}'/>")))
    return form.get("pubsub#access_model") == "whitelist"


async def max_items_max(it: Service) -> bool:
    """`max` means the service's maximum (12.23)."""
    node = it.name()
    form = submit("node_config", {"pubsub#max_items": "max"})
    await it.does("ann", "set", plain(f"<create node='{node}'/><configure>{form}</configure>"))
    await it.publish(node, "a", "b", "c")
    return len(await it.ids(node)) == 3


async def unknown_settings(it: Service) -> bool:
    """An unknown setting is refused, not ignored (8.2.5.2)."""
    try:
        await it.create(no_such_setting=1)
    except NotDoneError:
        node, form = it.name(), submit("node_config", {"pubsub#no_such_setting": "1"})
        child = plain(f"<create node='{node}'/><configure>{form}</configure>")
        return await it.refuses("ann", "set", child)
    return False
