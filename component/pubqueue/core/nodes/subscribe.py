"""Subscribe and unsubscribe (XEP-0060 6.1, 6.2), with the window of XEP-0254 2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import (
    AddSubscription,
    EndSubscription,
    SetWindow,
)
from pubqueue.core.decision import (
    Decision,
    Done,
    Refusal,
    Refused,
    Subscribed,
    refuse,
)
from pubqueue.core.model import Affiliation, Draft, SendLast, Subscription
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.telling import announcement, tell

if TYPE_CHECKING:
    from pubqueue.core.decision import News
    from pubqueue.core.model import Asker, Item, Jid, Millis, Node, NodeName

MOST_SUBSCRIPTIONS: Final = 1_000
"""Of one account to one node, unless an operator says otherwise."""

WINDOW: Final = "queue_requests"
"""The one option of a subscription, by its name here."""


class Options(Struct, frozen=True, gc=False):
    """What somebody wants of a subscription: so many items at once, as text or as a number.

    `objection` is what the face could not read; without a number it stands even where there are no options.
    """

    queue_requests: str | int | None = None
    objection: Refused | None = None


class Subscribe(Struct, frozen=True, gc=False):
    """Subscribe `jid`, with these options if there are any.

    `subid` is the id for the subscription, should it be a new one.
    """

    by: Asker
    node: NodeName
    jid: Jid
    subid: str
    options: Options | None = None


class SetOptions(Struct, frozen=True, gc=False):
    """Change the options of a subscription (XEP-0060 6.3.5), or only ask for them: None."""

    by: Asker
    node: NodeName
    jid: Jid
    subid: str | None
    options: Options | None = None


class Unsubscribe(Struct, frozen=True, gc=False):
    """End the subscription of `jid`."""

    by: Asker
    node: NodeName
    jid: Jid
    subid: str | None = None


class SubscribeFacts(Struct, frozen=True, gc=False):
    """The node, the asker's affiliation, `jid`'s subscription, and what `jid` still holds.

    `of_account` counts the subscriptions of the account to the node, of which it may have `most`.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscription: Subscription | None
    held: int = 0
    of_account: int = 0
    most: int = MOST_SUBSCRIPTIONS
    last: tuple[Item, bytes] | None = None
    """The newest item of a node that sends it to whoever subscribes."""


def subscribe(request: Subscribe, facts: SubscribeFacts) -> Decision:
    """Decide a subscription; on a queue it needs a window, asked for last (XEP-0254 row 33)."""
    node = facts.node
    if account_of(request.jid) != request.by.account:
        return refuse(Refusal.FOREIGN_JID)
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if not access.may(affiliation, Action.SUBSCRIBE, node):
        return refuse(Refusal.FORBIDDEN)
    window = read_window(request.options, node)
    if isinstance(window, Refused):
        return Decision(window)
    if facts.subscription is not None:
        return _again(node, facts.subscription, window)
    return _anew(request, facts, node, window)


def _anew(request: Subscribe, facts: SubscribeFacts, node: Node, window: int | None) -> Decision:
    """Make a subscription, if the account has not too many."""
    if node.config.queueing and window is None:
        return refuse(Refusal.CONFIGURATION_REQUIRED, limit=node.config.max_queue_requests)
    if facts.of_account >= facts.most:  # XEP-0060 6.1.3.9
        return refuse(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=facts.most)
    new = Subscription(
        node=node.name,
        jid=request.jid,
        subid=request.subid,
        queue_requests=window or 1,
        in_flight=facts.held,
    )
    told = last_item(node, new.jid, facts.last)
    return Decision(Subscribed(new, node.config.queueing), (AddSubscription(new),), told)


def last_item(node: Node, to: Jid, last: tuple[Item, bytes] | None) -> tuple[News, ...]:
    """Send the last item to one who subscribes from now on, if the node does so (XEP-0060 6.1.7, 12.10)."""
    if last is None or node.config.send_last_published_item is not SendLast.ON_SUB:
        return ()
    item, payload = last
    draft = Draft(item.id, payload, headers=item.headers)
    return tell(node, (to,), announcement(node, draft, item.publisher, item.published))


def _again(node: Node, held: Subscription, window: int | None) -> Decision:
    """Answer one who subscribes already: the state as it is, with a new window if one is asked."""
    if not node.config.queueing:
        return Decision(Subscribed(held, queueing=False))
    after = replace(held, queue_requests=window or held.queue_requests, available=True)
    change = SetWindow(node.name, held.jid, after.queue_requests)
    return Decision(Subscribed(after, queueing=True), () if after == held else (change,))


def read_window(options: Options | None, node: Node) -> int | Refused | None:
    """Return the window that the options ask for, at most the node's bound (XEP-0254 row 7).

    None means that nothing was asked. Only a queue node has options.
    """
    if options is None:
        return None
    asked = options.queue_requests
    if not node.config.queueing:
        return options.objection if asked is None else _no("this node has no options")
    if options.objection is not None:
        return options.objection
    if asked is None:
        return _no(f"{WINDOW} is needed, once", WINDOW)
    digits = str(asked).strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits[:10]) < 1:
        return _no(f"{WINDOW}: a whole number from 1", WINDOW)
    return min(int(digits[:10]), node.config.max_queue_requests)


def _no(reason: str, setting: str = "") -> Refused:
    return Refused(Refusal.INVALID_OPTIONS, reason, setting=setting)


def set_options(request: SetOptions, facts: SubscribeFacts) -> Decision:
    """Decide about the options of a subscription. Lowering the window recalls nothing (row 23)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    node, subscription = found
    window = read_window(request.options, node)
    if isinstance(window, Refused):
        return Decision(window)
    if window is None:
        return Decision(Subscribed(subscription, node.config.queueing))
    after = replace(subscription, queue_requests=window)
    change = SetWindow(node.name, subscription.jid, window)
    return Decision(Subscribed(after, queueing=True), (change,))


def unsubscribe(request: Unsubscribe, facts: SubscribeFacts) -> Decision:
    """Decide an unsubscription. Locks stay with the JID until settled or timed out (row 19)."""
    found = _own(request, facts)
    if isinstance(found, Decision):
        return found
    _, subscription = found
    return Decision(Done(), (EndSubscription(subscription.node, subscription.jid),))


def _own(
    request: SetOptions | Unsubscribe, facts: SubscribeFacts
) -> tuple[Node, Subscription] | Decision:
    """Find the subscription that the request is about, or say why not (XEP-0060 6.2.3, 6.3.4)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if account_of(request.jid) != request.by.account:
        return refuse(Refusal.FORBIDDEN)
    if facts.subscription is None:
        return refuse(Refusal.NOT_SUBSCRIBED)
    if request.subid is not None and request.subid != facts.subscription.subid:
        return refuse(Refusal.INVALID_SUBID)
    return facts.node, facts.subscription
