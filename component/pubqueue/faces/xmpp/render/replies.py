"""Renders the reply to each request to bytes, without stanza objects, and knows how large it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.xml import forms
from pubqueue.faces.xmpp.xml.forms import cut
from pubqueue.faces.xmpp.xml.stanza import MAX_ANSWER_BYTES, ROOM, attribute, stamp
from pubqueue.model import replies, several_subscriptions
from pubqueue.model.decision import Published, Refusal, Refused, Withdrawn
from pubqueue.model.entities import ItemReply, NodeConfig, NodeName, SubscriptionState
from pubqueue.model.transactions import AtWork, name_of_transaction
from pubqueue.rules.discovery import name_of
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.unlock import Touch
from pubqueue.version import __version__
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import (
        Done,
        DoneTogether,
        Redriven,
        Request,
        Retrieved,
        Signaled,
        SignalLinkMade,
        Touched,
    )
    from pubqueue.model.entities import Item, Jid, Millis, Subscription
    from pubqueue.model.transactions import (
        Committed,
        LastVersion,
        Record,
        Skipped,
        TakenId,
        Transactions,
    )


# Renders the reply to each request to bytes, without stanza objects.
#
# Each renderer takes the reply and the service's name; the table in `verbs` selects the renderer.


def done(_reply: Done | DoneTogether | replies.Emptied, _service: str) -> bytes:
    """Return nothing; an empty result is the answer."""
    return b""


def withdrawn(reply: Done | DoneTogether | Withdrawn, _service: str) -> bytes:
    """Return the deleted items that were locked to other accounts."""
    ids = reply.locked if isinstance(reply, Withdrawn) else ()
    locked = "".join([f'<locked item="{attribute(item)}"/>' for item in ids])
    child = f'<retracted xmlns="{ns.PUBQUEUE}">{locked}</retracted>'
    return f'<pubsub xmlns="{ns.PUBSUB}">{child}</pubsub>'.encode()


def software_version() -> str:
    """Return name and version of the program (XEP-0092)."""
    return (
        f'<query xmlns="{ns.VERSION}"><name>pubqueue</name><version>{__version__}</version></query>'
    )


def entity_time(now: Millis) -> str:
    """Return the time (XEP-0202); the time zone is UTC."""
    return f'<time xmlns="{ns.TIME}"><tzo>Z</tzo><utc>{stamp(now)}</utc></time>'


def published(reply: Published | Skipped, _service: str) -> bytes:
    """Return the ids (XEP-0060 7.1.2), and information about items that existed before."""
    return _published(reply)


def _published(reply: Published | Skipped, beside: str = "") -> bytes:
    if not isinstance(reply, Published):
        return skipped(reply).encode()
    items = "".join([f'<item id="{attribute(item)}"/>' for item in reply.ids])
    node = attribute(reply.node)
    taken = len(items) + len(beside)
    dead = _deaths_within(ROOM - taken, reply.dead) if reply.dead else ""
    return f'<pubsub xmlns="{ns.PUBSUB}"><publish node="{node}">{items}</publish>{beside}{dead}</pubsub>'.encode()


def _deaths_within(room: int, dead: Sequence[Item]) -> str:
    """Return information about as many dead items as fit beside the ids, at least one."""
    child = _death(dead[0])
    for item in dead[1:]:
        one = _death(item)
        if len(child) + len(one) > room:
            break
        child += one
    return child


def published_briefly(reply: Published | Skipped, service: str) -> bytes:
    """Return nothing if the items were accepted and there is no other information."""
    return b"" if type(reply) is Published and not reply.dead else published(reply, service)


def published_if_known(reply: Published | Skipped, service: str) -> bytes:
    """Return nothing if all items are new, otherwise also the items that already existed."""
    if not isinstance(reply, Published) or not reply.known:
        return published_briefly(reply, service)
    known = [f'<known xmlns="{ns.PUBQUEUE}" item="{attribute(item)}"/>' for item in reply.known]
    return _published(reply, "".join(known))


def subscribed(reply: replies.Subscribed, _service: str) -> bytes:
    """Return the subscription, with its window (XEP-0254 example 3)."""
    words = _subscription(reply.subscription)
    options = ""
    if reply.queueing or reply.configured:
        options = f"<options>{forms.options_now(reply, kind='result')}</options>"
    return f'<pubsub xmlns="{ns.PUBSUB}"><subscription {words}/>{options}</pubsub>'.encode()


def unsubscribed(reply: replies.Unsubscribed, _service: str) -> bytes:
    """Return the subscription with the state `none` (XEP-0060 6.2.2)."""
    words = _subscription(reply.subscription, SubscriptionState.NONE)
    return f'<pubsub xmlns="{ns.PUBSUB}"><subscription {words}/></pubsub>'.encode()


def created(reply: replies.Created, _service: str) -> bytes:
    """Return the name of the node (XEP-0060 8.1.2)."""
    return f'<pubsub xmlns="{ns.PUBSUB}"><create node="{attribute(reply.node)}"/></pubsub>'.encode()


def _subscription(s: Subscription, state: SubscriptionState | None = None) -> str:
    return (
        f'node="{attribute(s.node)}" jid="{attribute(s.jid)}" '
        f'subid="{attribute(s.subid)}" subscription="{(state or s.state).value}"'
    )


def my_subscriptions(reply: replies.MySubscriptions, _service: str) -> bytes:
    """Return the principal's subscriptions (XEP-0060 5.6)."""
    entries = [f"<subscription {_subscription(s)}/>" for s in reply.entries]
    names = [name_of(s) for s in reply.entries]
    return _list("subscriptions", reply.node, entries, names, reply.part)


def my_affiliations(reply: replies.MyAffiliations, _service: str) -> bytes:
    """Return the principal's affiliations (XEP-0060 5.7)."""
    entries = [
        f'<affiliation node="{attribute(node)}" affiliation="{affiliation.value}"/>'
        for node, affiliation in reply.entries
    ]
    names = [node for node, _ in reply.entries]
    return _list("affiliations", reply.node, entries, names, reply.part)


def _list(
    verb: str,
    node: NodeName | None,
    entries: Sequence[str],
    names: Sequence[str],
    part: replies.Part,
    *,
    namespace: str = ns.PUBSUB,
) -> bytes:
    """Return as much of a list as fits, and a result set that describes this part."""
    shown, which = cut([entry.encode() for entry in entries], names, part)
    words = "" if node is None else f' node="{attribute(node)}"'
    head = f'<pubsub xmlns="{namespace}"><{verb}{words}>'
    return f"{head}{''.join(entries[shown])}</{verb}>{which}</pubsub>".encode()


def options(reply: replies.Subscribed, _service: str) -> bytes:
    """Return the options of a subscription (XEP-0060 6.3)."""
    s = reply.subscription
    inner = forms.options_now(reply, kind="form")
    words = f'node="{attribute(s.node)}" jid="{attribute(s.jid)}" subid="{attribute(s.subid)}"'
    return f'<pubsub xmlns="{ns.PUBSUB}"><options {words}>{inner}</options></pubsub>'.encode()


def default_options(reply: replies.DefaultOptions, _service: str) -> bytes:
    """Return the options of a new subscription (XEP-0060 6.4.2)."""
    words = "" if reply.node is None else f' node="{attribute(reply.node)}"'
    form = forms.options_by_default(reply)
    return f'<pubsub xmlns="{ns.PUBSUB}"><default{words}>{form}</default></pubsub>'.encode()


def configuration(reply: replies.Described, _service: str) -> bytes:
    """Return the node's configuration (XEP-0060 8.2.2)."""
    node = attribute(reply.node.name)
    form = forms.node_config(reply.node.config)
    return (
        f'<pubsub xmlns="{ns.OWNER}"><configure node="{node}">{form}</configure></pubsub>'.encode()
    )


def default_configuration() -> str:
    """Return the configuration of a new node (XEP-0060 8.3)."""
    form = forms.node_config(NodeConfig())
    return f'<pubsub xmlns="{ns.OWNER}"><default>{form}</default></pubsub>'


def touched(reply: Touched, _service: str) -> bytes:
    """Return the new deadlines of the locks."""
    items = "".join(
        f'<item id="{attribute(item)}" deadline="{stamp(deadline)}"/>'
        for item, deadline in reply.entries
    )
    return f'<touch xmlns="{ns.PUBQUEUE}" node="{attribute(reply.node)}">{items}</touch>'.encode()


def signal_link(reply: SignalLinkMade, _service: str) -> bytes:
    """Return the link, as a path below the address of the service, and until when it holds."""
    words = f'node="{attribute(reply.node)}" item="{attribute(reply.id)}" path="{attribute(reply.path)}"'
    return f'<signal-linked xmlns="{ns.PUBQUEUE}" {words} until="{stamp(reply.until)}"/>'.encode()


def signaled(reply: Signaled, _service: str) -> bytes:
    """Return the state of the item that got the signal, and whether it had it already."""
    words = (
        f'node="{attribute(reply.node)}" item="{attribute(reply.id)}" state="{reply.state.value}"'
    )
    again = ' again="true"' if reply.again else ""
    return f'<signaled xmlns="{ns.PUBQUEUE}" {words}{again}/>'.encode()


def redriven(reply: Redriven, _service: str) -> bytes:
    """Return the number of requeued dead items."""
    node = attribute(reply.node)
    return f'<redrive xmlns="{ns.PUBQUEUE}" node="{node}" count="{reply.count}"/>'.encode()


def retrieved(reply: Retrieved, _service: str) -> bytes:
    """Return the items, and a result set if some were left out (XEP-0060 6.5.4)."""
    config = reply.node.config
    entries = [_item(item, payload, config) for item, payload in reply.items]
    deaths = [_death(item) if item.dead_letter else "" for item, _ in reply.items]
    both = [entry + death.encode() for entry, death in zip(entries, deaths, strict=True)]
    shown, which = cut(both, [item.id for item, _ in reply.items], reply.part)
    beside = "".join(deaths[shown]) + which
    head = f'<pubsub xmlns="{ns.PUBSUB}"><items node="{attribute(reply.node.name)}">'
    return head.encode() + b"".join(entries[shown]) + f"</items>{beside}</pubsub>".encode()


def _item(item: Item, payload: bytes, config: NodeConfig) -> bytes:
    words = f'id="{attribute(item.id)}"'
    if config.queueing or config.itemreply is ItemReply.PUBLISHER:
        words += f' publisher="{attribute(item.publisher)}"'
    return f"<item {words}>".encode() + payload + b"</item>"


def _death(item: Item) -> str:
    """Return the record of an item's death, an extension of ours beside the items."""
    letter = item.dead_letter
    if letter is None:
        return ""
    words = f'item="{attribute(item.id)}" published="{stamp(item.published)}"'
    words += f' at="{stamp(letter.at)}" reason="{attribute(letter.reason)}"'
    words += f' node="{attribute(letter.origin)}"' if letter.origin else ""
    words += f' holder="{attribute(letter.holder)}"' if letter.holder else ""
    return f'<dead xmlns="{ns.PUBQUEUE}" {words}/>'


def affiliations(reply: replies.Affiliations, _service: str) -> bytes:
    """Return the affiliations of a node (XEP-0060 8.9.1)."""
    entries = [
        f'<affiliation jid="{attribute(jid)}" affiliation="{affiliation.value}"/>'
        for jid, affiliation in reply.entries
    ]
    names = [jid for jid, _ in reply.entries]
    return _list("affiliations", reply.node, entries, names, reply.part, namespace=ns.OWNER)


# --- what a refusal shows ------------------------------------------------------------------------


def wanted(refused: Refused, *, asked: Element) -> bytes | None:
    """Return the request and a form with the required options (XEP-0254 example 1)."""
    if refused.refusal is not Refusal.CONFIGURATION_REQUIRED:
        return None
    node, jid = attribute(asked.get("node") or ""), attribute(asked.get("jid") or "")
    form = forms.options_wanted(refused.limit)
    return (
        f'<pubsub xmlns="{ns.PUBSUB}"><subscribe node="{node}" jid="{jid}"/>'
        f'<options node="{node}" jid="{jid}">{form}</options></pubsub>'
    ).encode()


def node_subscriptions(reply: replies.NodeSubscriptions, _service: str) -> bytes:
    """Return the subscribers of the node (XEP-0060 8.8.1.2)."""
    entries = [_entry(one.jid, one.subid, one.state) for one in reply.entries]
    names = [several_subscriptions.name_of(one, one.jid) for one in reply.entries]
    return _list("subscriptions", reply.node, entries, names, reply.part, namespace=ns.OWNER)


def _entry(jid: Jid, subid: str, state: SubscriptionState) -> str:
    words = f' subid="{attribute(subid)}"' if subid else ""
    return f'<subscription jid="{attribute(jid)}" subscription="{state.value}"{words}/>'


def standing(refused: Refused, *, asked: Element) -> bytes | None:
    """Return the subscriptions that could not be changed (XEP-0060 8.8.2.4)."""
    if not refused.standing:
        return None
    node = attribute(asked.get("node") or "")
    entries = "".join(_entry(one.jid, one.subid, one.state) for one in refused.standing)
    return (
        f'<pubsub xmlns="{ns.OWNER}"><subscriptions node="{node}">{entries}</subscriptions></pubsub>'
    ).encode()


def unchanged(refused: Refused, *, asked: Element) -> bytes | None:
    """Return the affiliations that could not be changed (XEP-0060 8.9.2.4)."""
    if not refused.unchanged:
        return None
    return affiliations(
        replies.Affiliations(NodeName(asked.get("node") or ""), refused.unchanged), ""
    )


# Computes the maximum size of an answer before the request is decided, because a committed change has to be answered.
#
# Lists continue on another page when a stanza is full. An answer that repeats the id of each item cannot, so a request whose answer might
# not fit is refused, without effect.

LIMIT: Final = MAX_ANSWER_BYTES - 12_000
"""Bytes for the items in an answer; the rest is for addresses, the node, and a dead item."""

ITEM: Final = len('<item id=""/>')
KNOWN: Final = len('<known xmlns="urn:x-pubqueue:0" item=""/>')
TOUCHED: Final = len('<item id="" deadline="2026-01-01T00:00:00.000Z"/>')
LOCKED: Final = len('<locked item=""/>')
"""Bytes for each item in an answer, in addition to its id."""

ENTRY: Final = 200
"""Maximum bytes of an affiliation or a subscription in an answer, in addition to its JID."""

TOO_MANY: Final = Refused(
    Refusal.TOO_MANY_ITEMS,
    f"an answer that names all of these would have more than {LIMIT} bytes: ask for fewer of them at once",
)


def largest(request: Request, wanted: str) -> int:
    """Return the maximum bytes of the answer for the items or entries that it names; 0 if it names none.

    `wanted` is the requested answer: `known` repeats the ids of existing or locked items. If only some entries can be changed, the error
    names the others.
    """
    match request:
        case Publish(drafts=drafts) | StagePublish(publish=Publish(drafts=drafts)):
            ids = [draft.id for draft in drafts]
            return _of(ids, ITEM) + (_of(ids, KNOWN) if wanted == "known" else 0)
        case Touch(ids=ids):
            return _of(ids, TOUCHED)
        case Settle(ids=ids) if wanted == "known":
            return _of(ids, LOCKED)
        case SetAffiliations(entries=entries):
            return _of([jid for jid, _ in entries], ENTRY)
        case SetSubscriptions(wishes=wishes):
            return _of([wish.jid for wish in wishes], ENTRY)
        case _:
            return 0


def _of(ids: Iterable[str], beside: int) -> int:
    return sum(len(attribute(one).encode()) + beside for one in ids)


def beyond(request: Request, wanted: str) -> Refused | None:
    """Refuse a request whose answer might not fit into a stanza."""
    return TOO_MANY if largest(request, wanted) > LIMIT else None


# Renders answers about transactions, in our own namespace (`urn:x-pubqueue:0`).

FEATURE: Final = f"{ns.PUBQUEUE}#transactions"
PROGRESS: Final = f"{ns.PUBQUEUE}#commit-progress"
HOLD: Final = f"{ns.PUBQUEUE}#hold"
THEN: Final = f"{ns.PUBQUEUE}#then"
JOINS: Final = f"{ns.PUBQUEUE}#joins"


def skipped(reply: Skipped) -> str:
    """Return the result of a publish to a version that is already committed."""
    items = "".join(f'<item id="{attribute(item)}"/>' for item in reply.ids)
    publish = f'<publish node="{attribute(reply.node)}">{items}</publish>'
    skipped = f'<skipped xmlns="{ns.PUBQUEUE}" version="{reply.version}"/>'
    return f'<pubsub xmlns="{ns.PUBSUB}">{publish}{skipped}</pubsub>'


def committed(reply: Committed | AtWork, _service: str) -> bytes:
    """Return the counts of a commit, or how far it is."""
    if isinstance(reply, AtWork):
        return (
            f'<committing xmlns="{ns.PUBQUEUE}" version="{reply.version}" '
            f'phase="{reply.phase.value}" done="{reply.done}" of="{reply.of}"/>'
        ).encode()
    already = "true" if reply.already else "false"
    start = (
        f'<committed xmlns="{ns.PUBQUEUE}" version="{reply.version}" '
        f'published="{reply.published}" known="{reply.known}" already="{already}"'
    )
    if not reply.taken:
        return f"{start}/>".encode()
    named = "".join(map(_taken, reply.named))
    return f'{start} taken="{reply.taken}">{named}</committed>'.encode()


def _taken(found: TakenId) -> str:
    words = {"node": attribute(found.node), "id": attribute(found.id), "state": found.state.value}
    attributes = "".join(f' {name}="{value}"' for name, value in words.items())
    return f"<item{attributes}/>"


def last_version(reply: LastVersion, _service: str) -> bytes:
    """Return the last committed version of an app."""
    version = "" if reply.version is None else f' version="{reply.version}"'
    at = "" if reply.at is None else f' at="{stamp(reply.at)}"'
    return f'<txn xmlns="{ns.PUBQUEUE}" app="{attribute(reply.app)}"{version}{at}/>'.encode()


def transactions(reply: Transactions, _service: str) -> bytes:
    """Return a page of records."""
    more = ' more="true"' if reply.more else ""
    inner = "".join(_record(record, reply.now) for record in reply.records)
    return f'<transactions xmlns="{ns.PUBQUEUE}"{more}>{inner}</transactions>'.encode()


def _record(record: Record, now: int) -> str:
    totals = record.totals
    words = {
        "id": record.id,
        "app": attribute(name_of_transaction(record.app)),
        "version": record.version,
        "publisher": attribute(record.owner),
        "rows": record.items,
        "bytes": record.bytes,
        "began": stamp(record.began),
        "committed": None if record.committed is None else stamp(record.committed),
        "age": max(0, (now - record.began) // 1000) if record.committed is None else None,
        "skipped": totals.skipped,
        "dead-lettered": totals.dead_lettered,
        "seconds": totals.seconds,
    }
    attributes = "".join(f' {name}="{value}"' for name, value in words.items() if value is not None)
    return f"<transaction{attributes}/>"
