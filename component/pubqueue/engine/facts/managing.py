"""Facts for requests about nodes and their subscribers: lists, changes, approvals, trims, notices to many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.engine import listings
from pubqueue.engine.facts.publishing import (
    all_subscriptions,
    audience,
    by_presence,
    here,
    oldest,
    others,
    others_of,
    subscribers,
)
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    ItemId,
    Jid,
    NodeConfig,
    NodeName,
    SendLast,
    SubscriptionState,
    account_of,
    domain_of,
)
from pubqueue.model.notices import Everybody
from pubqueue.model.replies import part_of, room_of
from pubqueue.model.several_subscriptions import counted, listed, read_name, subids_of
from pubqueue.rules import access, discovery, nodes, subscribe, trimming
from pubqueue.rules.access import NOTHING_NAMED
from pubqueue.rules.audience import PAGE, PageFacts, ResumeReviewFacts, ReviewFacts, UnnotifiedFacts
from pubqueue.rules.declare import SLICE, Declare, UnusedFacts, is_kept_for_a_time
from pubqueue.rules.discovery import (
    AffiliationFacts,
    Describe,
    NodeListFacts,
    SubscriptionFacts,
    named,
)
from pubqueue.rules.feed import Feeder
from pubqueue.rules.nodeconfig import configure
from pubqueue.rules.nodes import Configure, Create, Delete, NodeFacts, Purge, SetPolicy
from pubqueue.rules.registrations import ListPushedFacts
from pubqueue.rules.room import STATUS_ID, truncates
from pubqueue.rules.subscribers import (
    AT_ONCE,
    AnswerFacts,
    Named,
    PendingFacts,
    QuietFacts,
    SubscribersFacts,
    stands_now,
)
from pubqueue.rules.trimming import ResumeTrimsFacts, TrimItemsFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from pubqueue.engine.context import Context
    from pubqueue.engine.rows import AffiliationRow
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import Item, Node, Principal, Subscription
    from pubqueue.model.replies import Page, Part
    from pubqueue.rules.access import Others
    from pubqueue.rules.audience import (
        ListUnnotified,
        NextSubscribers,
        NotifyFormer,
        ResumeReviews,
        ReviewSubscribers,
    )
    from pubqueue.rules.declare import DeleteUnused
    from pubqueue.rules.discovery import (
        ListItems,
        ListMyAffiliations,
        ListMySubscriptions,
        ListNodes,
    )
    from pubqueue.rules.nodeconfig import Settings
    from pubqueue.rules.nodes import GetAffiliations, SetAffiliations
    from pubqueue.rules.registrations import ListPushed
    from pubqueue.rules.subscribers import (
        Answer,
        GetSubscriptions,
        QuietWorker,
        ReadPending,
        SendPending,
        SetSubscriptions,
    )
    from pubqueue.rules.trimming import ResumeTrims, TrimItems

    R = TypeVar("R")
    Known = list[tuple[Node, Affiliation]]
    Pairs = tuple[tuple[Jid, Affiliation], ...]


# Facts for lists: nodes, ids of items, affiliations, an account's own subscriptions; one page of each.
#
# Rights are judged before a row of a list is read, and no more of a list is read than the page has: a
# listing costs the same however long it is.


def for_nodes(context: Context, request: ListNodes) -> NodeListFacts:
    """Return nodes that the principal may see, each with its affiliation."""
    rows, page = context.rows, request.page
    if request.prefix:
        found, more = _seen(rows, request, room_of(page))
        return NodeListFacts(tuple(found), part_of(page, more=more, total=None))
    room, back = room_of(page), page is not None and page.before is not None
    found, more = _seen(rows, request, room) if room else ([], True)
    part = drop_former(page, len(found), more=more, total=lambda: _all_seen(rows, request))
    if back:
        part = backward(part, more=more)
    return NodeListFacts(tuple(reversed(found) if back else found), part)


def for_pushed(context: Context, request: ListPushed) -> ListPushedFacts:
    """Return the next nodes whose items are pushed."""
    if not request.by.admin:
        return ListPushedFacts(())
    return ListPushedFacts(
        tuple(context.rows.page(listings.NodesPushed(), request.after, request.most + 1))
    )


def _seen(rows: WorkingSet, request: ListNodes, room: int) -> tuple[Known, bool]:
    """Return up to n nodes that the principal may see, the nearest first, and whether there are more."""
    found: Known = []
    place = _name(request.page)
    while True:
        known = _next_known(rows, request, place, room + 1)
        found += [entry for entry in known if discovery.sees(request.by, *entry)]
        if len(found) > room:
            return found[:room], True
        if len(known) <= room:
            return found, False
        place = known[-1][0].name


def _next_known(rows: WorkingSet, request: ListNodes, place: str | None, count: int) -> Known:
    """Return the next nodes that the principal may see or has an affiliation with."""
    back = request.page is not None and request.page.before is not None
    open_to_it, mine = _listings(request)
    known = {
        node.name: (node, Affiliation.NONE)
        for listing in open_to_it
        for node in rows.page(listings.Backward(listing) if back else listing, place, count)
    }
    if mine is not None:
        entries = rows.page(listings.Backward(mine) if back else mine, place, count)
        known.update({entry[0].name: entry for entry in entries})
    return [known[name] for name in sorted(known, reverse=back)[:count]]


def _listings(
    request: ListNodes, access_of_mine: tuple[AccessModel, ...] | None = None
) -> tuple[list[Any], Any]:
    """Return the listings of nodes that the principal may see: those open to it, and those that it has an affiliation with."""
    by, types, prefix = request.by, request.types, request.prefix
    if prefix and by.admin:
        return [listings.NodesNamed(prefix)], None
    if prefix:
        opened = [listings.NodesNamed(prefix, model) for model in access.SEEN_BY_ALL]
        return opened, listings.NodesOfAccountNamed(by.account, prefix)
    if types is None:
        if by.admin:
            return [listings.Nodes()], None
        open_to_it = [listings.Nodes(model) for model in access.SEEN_BY_ALL]
        return open_to_it, listings.NodesOfAccount(by.account, access=access_of_mine)
    models = tuple(AccessModel) if by.admin else access.SEEN_BY_ALL
    if types.included is None:
        open_to_it = [listings.Nodes(model, but=types.excluded) for model in models]
        mine = listings.NodesOfAccount(by.account, access=access_of_mine, but=types.excluded)
    else:
        open_to_it = [listings.Nodes(model, kind) for model in models for kind in types.included]
        mine = listings.NodesOfAccount(by.account, access=access_of_mine, types=types.included)
    return open_to_it, None if by.admin else mine


def _all_seen(rows: WorkingSet, request: ListNodes) -> int:
    """Count the nodes that the principal may see; those that exclude it are included, because they are few."""
    open_to_it, mine = _listings(request, access.SEEN_BY_KNOWN)
    seen = sum(total_of(rows, listing) for listing in open_to_it)
    return seen if mine is None else seen + total_of(rows, mine)


def for_items(context: Context, request: ListItems) -> NodeFacts:
    """Return the node and ids of its items, the oldest first."""
    rows, page = context.rows, request.page
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    known = NodeFacts(context.now, node, affiliation, part=part_of(page, more=False, total=0))
    if node is None:
        return known
    subscribed = rows.subscribed(node.name, request.by.account)
    if not discovery.sees_items(request.by, node, affiliation, subscribed=subscribed):
        return known
    after, missing = place_of(rows, node, page)
    if missing:
        return NodeFacts(context.now, node, affiliation, after_missing=True)
    found, part = _part(rows, listings.ItemIds(node.name), after or None, page, lambda: node.items)
    return replace(known, items=tuple(found), part=part, subscribed=subscribed)


def place_of(rows: WorkingSet, node: Node, page: Page | None) -> tuple[int, bool]:
    """Return the number of the item at which the page begins or ends, and whether that item is missing."""
    name = None if page is None else page.before or page.after
    if name is None:
        return 0, False
    item = rows.item(node.name, ItemId(name))
    return (0, True) if item is None else (item.seq, False)


def for_get_affiliations(context: Context, request: GetAffiliations) -> NodeFacts:
    """Return the affiliations of the node, if the principal may know them."""
    rows, page = context.rows, request.page
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    if node is None or not nodes.manages(request.by, node, affiliation):
        return NodeFacts(context.now, node, affiliation)
    listing = listings.AffiliationsOf(node.name)
    found, part = _part(rows, listing, _name(page), page, lambda: total_of(rows, listing))
    people = tuple((row.account, row.affiliation) for row in found)
    return NodeFacts(context.now, node, affiliation, affiliations=people, part=part)


def for_my_affiliations(context: Context, request: ListMyAffiliations) -> AffiliationFacts:
    """Return the account's affiliations with the requested nodes."""
    rows, by, page = context.rows, request.by, request.page
    if request.node is not None:
        node = rows.node(request.node)
        mine = [] if node is None else [(node.name, rows.affiliation(node.name, by.account))]
        return AffiliationFacts(tuple(mine), part_of(page, more=False, total=len(mine)))
    if by.admin:
        nodes, part = _part(
            rows, listings.Nodes(), _name(page), page, lambda: total_of(rows, listings.Nodes())
        )
        return AffiliationFacts(tuple((node.name, Affiliation.NONE) for node in nodes), part)
    listing = listings.NodesOfAccount(by.account)
    found, part = _part(rows, listing, _name(page), page, lambda: total_of(rows, listing))
    return AffiliationFacts(tuple((node.name, role) for node, role in found), part)


def for_my_subscriptions(context: Context, request: ListMySubscriptions) -> SubscriptionFacts:
    """Return the account's subscriptions to the requested nodes."""
    rows, page = context.rows, request.page
    if request.node is not None and rows.node(request.node) is None:
        return SubscriptionFacts(found=False, entries=())
    subid, name = read_name(_name(page))
    place = None if name is None else named(name)
    if name is not None and place is None:
        return SubscriptionFacts(found=True, entries=(), after_missing=True)
    listing = listings.SubscriptionsOfAccount(request.by.account, request.node)
    found, part = _subscriptions(rows, listing, place, page, (subid, place))
    return SubscriptionFacts(found=True, entries=tuple(found), part=part)


def subscriptions_part(
    rows: WorkingSet, listing: listings.SubscriptionsOf, page: Page | None
) -> tuple[list[Subscription], Part]:
    """Return subscriptions to a node, by JID and id, and the description of their part of the whole."""
    subid, name = read_name(_name(page))
    at = None if name is None else (listing.node, Jid(name))
    return _subscriptions(rows, listing, name, page, (subid, at))


def _subscriptions(
    rows: WorkingSet,
    listing: listings.Listing[Subscription],
    after: object,
    page: Page | None,
    within: tuple[str | None, tuple[NodeName, Jid] | None],
) -> tuple[list[Subscription], Part]:
    """Return a page of subscriptions: first the remaining ones of the JID `within`, with which the last page ended."""
    room = room_of(page)
    back = page is not None and page.before is not None
    subid, at = within
    found: list[Subscription] = []
    row = None if subid is None or at is None else rows.subscription(*at)
    if row is not None and subid is not None:
        each = listed(row, backward=back)
        found += [one for one in each if (one.subid < subid if back else one.subid > subid)]
    for row in (
        rows.page(listings.Backward(listing) if back else listing, after, room + 1) if room else ()
    ):
        found += listed(row, backward=back)
    more = len(found) > room or not room
    part = drop_former(page, len(found[:room]), more=more, total=lambda: total_of(rows, listing))
    if back:
        return found[:room][::-1], backward(part, more=more)
    return found[:room], part


def _name(page: Page | None) -> str | None:
    return None if page is None else page.before or page.after


def _part(
    rows: WorkingSet,
    listing: listings.Listing[R],
    after: object,
    page: Page | None,
    total: Callable[[], int],
) -> tuple[list[R], Part]:
    """Return the rows of a page, and the description of their part of the listing."""
    room = room_of(page)
    back = page is not None and page.before is not None
    which = listings.Backward(listing) if back else listing
    found = rows.page(which, after, room + 1) if room else []
    more = len(found) > room or not room
    part = drop_former(page, len(found[:room]), more=more, total=total)
    if back:
        return found[:room][::-1], backward(part, more=more)
    return found[:room], part


def backward(part: Part, *, more: bool) -> Part:
    """Return the description of a part that was read from its end: `more` is before it."""
    return replace(part, more=False, begins=not more, backward=True)


def next_part(
    rows: WorkingSet, listing: listings.Listing[R], page: Page | None, total: Callable[[], int]
) -> tuple[list[R], Part]:
    """Return the rows of a page from the cache, and the description of their part of the listing."""
    return _part(rows, listing, _name(page), page, total)


def drop_former(page: Page | None, shown: int, *, more: bool, total: Callable[[], int]) -> Part:
    """Return the description of a part; the total is counted only if the part itself does not show it."""
    part = part_of(page, more=more, total=None)
    if not more and part.begins:
        return part_of(page, more=more, total=shown)
    return part_of(page, more=more, total=total())


def total_of(rows: WorkingSet, listing: listings.Listing[R]) -> int:
    """Count the rows of a listing."""
    return sum(rows.page(listings.Total(listing)))


# Facts for owners that approve subscriptions, or see and change them.


def for_answer(context: Context, request: Answer) -> AnswerFacts:
    """Return the subscription that an owner's answer is about."""
    rows = context.rows
    node = rows.node(request.node)
    return AnswerFacts(
        node,
        rows.affiliation(request.node, request.by.account),
        None if node is None else rows.subscription(node.name, request.jid),
        owners_to_notify(rows, node),
        last_to_send(rows, node) if request.allow else None,
    )


def for_quiet(context: Context, request: QuietWorker) -> QuietFacts:
    """Return the subscription that an owner makes quiet, or resumes."""
    rows = context.rows
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    if node is None:
        return QuietFacts(node, affiliation, None)
    one = rows.subscription(node.name, request.jid)
    asking = context.asking(request.jid, node.name) if one is None else None
    return QuietFacts(node, affiliation, one, asking)


def for_pending(context: Context, request: ReadPending) -> PendingFacts:
    """Return the subscriptions that wait at the node, or the nodes whose subscriptions the principal approves."""
    rows, by, page = context.rows, request.by, request.page
    if request.node is None:
        return _nodes_of(context, request)
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return PendingFacts(node, affiliation)
    listing = listings.SubscriptionsOf(node.name, SubscriptionState.PENDING)
    found, part = next_part(rows, listing, page, lambda: total_of(rows, listing))
    return PendingFacts(node, affiliation, tuple(found), part=part)


def _nodes_of(context: Context, request: ReadPending) -> PendingFacts:
    rows, by = context.rows, request.by
    model = AccessModel.AUTHORIZE
    if by.admin:
        every = listings.Nodes(model)
        nodes, part = next_part(rows, every, request.page, lambda: total_of(rows, every))
    else:
        mine = listings.NodesOfAccount(by.account, (Affiliation.OWNER,), (model,))
        pairs, part = next_part(rows, mine, request.page, lambda: total_of(rows, mine))
        nodes = [node for node, _ in pairs]
    names = tuple((node.name, node.config.title) for node in nodes)
    return PendingFacts(None, Affiliation.NONE, names=names, part=part)


def for_send(context: Context, request: SendPending) -> PendingFacts:
    """Return the subscriptions that wait at the node, as many as are sent at once."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return PendingFacts(node, affiliation)
    listing = listings.SubscriptionsOf(node.name, SubscriptionState.PENDING)
    return PendingFacts(node, affiliation, tuple(rows.page(listing, None, AT_ONCE)))


def for_get_subscriptions(context: Context, request: GetSubscriptions) -> SubscribersFacts:
    """Return the subscribers of the node, if the principal may know them."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return SubscribersFacts(node, affiliation)
    listing = listings.SubscriptionsOf(node.name)
    found, part = subscriptions_part(rows, listing, request.page)
    return SubscribersFacts(node, affiliation, tuple(found), part)


def for_set_subscriptions(context: Context, request: SetSubscriptions) -> SubscribersFacts:
    """Return the facts about each named JID, if the principal may change anything."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return SubscribersFacts(node, affiliation)
    named = tuple(
        Named(
            rows.subscription(node.name, wish.jid),
            rows.affiliation(node.name, account_of(wish.jid)),
            counted(rows.subscriptions_in(node.name, account_of(wish.jid))),
        )
        for wish in request.wishes
    )
    owners = owners_to_notify(rows, node) if node.config.notify_sub else ()
    most = context.terms.max_subscriptions
    return SubscribersFacts(node, affiliation, named=named, owners=owners, most=most)


# Facts for notices to very many subscribers: the next page of them.


def for_next_subscribers(context: Context, request: NextSubscribers) -> PageFacts:
    """Return the next subscribers of the node; of a node that has been deleted since, its former subscribers."""
    rows, node = context.rows, context.rows.node(request.node)
    which = (
        listings.FormerSubscribers(request.node)
        if node is None
        else listings.Subscribers(request.node)
    )
    page = tuple(rows.page(which, request.after, PAGE))
    if node is None or not page:
        return PageFacts(page)
    several = rows.page(listings.SeveralOf(request.node, page[-1]), request.after, PAGE)
    notified = here(context, page) if by_presence(node) else None
    return PageFacts(page, notified=notified, subids=subids_of(several))


def for_former(context: Context, request: NotifyFormer) -> PageFacts:
    """Return former subscribers of the deleted node, and those of them that subscribe to a new node of that name."""
    rows = context.rows
    there = rows.node(request.node) is not None
    page = tuple(rows.page(listings.FormerSubscribers(request.node), request.notified, PAGE))
    again = [jid for jid in page if there and rows.subscription(request.node, jid) is not None]
    return PageFacts(page, frozenset(again))


def for_review(context: Context, request: ReviewSubscribers) -> ReviewFacts:
    """Return the next subscribers with their affiliations."""
    rows, node = context.rows, context.rows.node(request.node)
    page = rows.page(listings.SubscriberRoles(request.node), request.after, PAGE)
    for jid, is_a, state in page:
        if node is not None and stands_now(state, is_a, node):
            rows.subscription(request.node, jid)  # its row is about to change
    return ReviewFacts(node, tuple(page))


def for_resume_reviews(context: Context, _request: ResumeReviews) -> ResumeReviewFacts:
    """Return a node whose subscribers are to be reviewed."""
    return ResumeReviewFacts(next(iter(context.rows.page(listings.Reviews())), None))


def for_unnotified(context: Context, request: ListUnnotified) -> UnnotifiedFacts:
    """Return the next deleted nodes that still have subscribers to notify."""
    return UnnotifiedFacts(
        tuple(context.rows.page(listings.UnnotifiedNodes(), request.after, PAGE))
    )


# Facts for principals that create, change and look at one node, or subscribe to it.

MAX_OWNERS: Final = 100
"""Up to how many owners, and publishers, a description of a node names."""

ALL: Final = 1 << 30


def for_subscription(
    context: Context, request: subscribe.Subscribe | subscribe.SetOptions | subscribe.Unsubscribe
) -> subscribe.SubscribeFacts:
    """Return the subscription that the request names."""
    rows = context.rows
    subscription = rows.subscription(request.node, request.jid)
    node = rows.node(request.node)
    anew = not subscription or (node is not None and node.config.multi_subscribe)
    return subscribe.SubscribeFacts(
        now=context.now,
        node=node,
        affiliation=rows.affiliation(request.node, request.by.account),
        subscription=subscription,
        held=0 if subscription else rows.count_held(request.jid, request.node),
        of_account=counted(rows.subscriptions_in(request.node, request.by.account)),
        most=context.terms.max_subscriptions,
        last=last_to_send(rows, node)
        if isinstance(request, subscribe.Subscribe) and anew
        else None,
        owners=owners_to_notify(rows, node),
        came=context.came(request.by.account) if isinstance(request, subscribe.Subscribe) else (),
        here=tuple(rows.resources(request.by.account))
        if isinstance(request, subscribe.Subscribe)
        else (),
        by_server=domain_of(request.by.account) != context.service.account,
    )


def last_to_send(rows: WorkingSet, node: Node | None) -> tuple[Item, bytes] | None:
    """Return the newest item of a node that sends it to new subscribers."""
    if node is None or node.config.send_last_published_item is not SendLast.ON_SUB:
        return None
    return next(iter(rows.page(listings.Items(node.name, newest=True))), None)


def owners_to_notify(rows: WorkingSet, node: Node | None) -> tuple[Jid, ...]:
    """Return owners of a node, if they or their rosters decide on subscriptions, or the node notifies them of these."""
    if node is None:
        return ()
    model = node.config.access_model
    asks = model is AccessModel.AUTHORIZE or model in access.OF_ROSTERS
    if not asks and not node.config.notify_sub:
        return ()
    return tuple(jid for jid, _ in _first(rows, node, _OWNER))


def for_defaults(context: Context, request: subscribe.GetDefaultOptions) -> subscribe.DefaultFacts:
    """Return the requested node."""
    if request.node is None:
        return subscribe.DefaultFacts(None, Affiliation.NONE)
    rows = context.rows
    affiliation = rows.affiliation(request.node, request.by.account)
    return subscribe.DefaultFacts(rows.node(request.node), affiliation)


def for_node(
    context: Context, request: Create | Declare | Describe | Configure | Delete | Purge
) -> NodeFacts:
    """Return the node, and of its accounts those that the request needs, if the principal may do this."""
    rows, by = context.rows, request.by
    node = rows.counted(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    known = NodeFacts(context.now, node, affiliation, context.terms.policy)
    if isinstance(request, Create | Declare | Configure):
        before = NodeConfig() if node is None else node.config
        known = replace(known, others=others(context, by, before, request.settings))
    if isinstance(request, Create) and access.may_create(by, context.terms.policy):
        known = replace(known, allowance=context.allowance(by.account))
    if node is None or isinstance(request, Create):
        return known
    if isinstance(request, Describe) and not request.manage:
        return replace(known, affiliations=_first(rows, node, _OWNER, *_PUBLISHERS))
    if not nodes.manages(by, node, affiliation):
        return known
    if isinstance(request, Delete):
        known = replace(known, others=around(context, by, node))
    if isinstance(request, Configure | Declare) and node.config.feeds:
        known = replace(known, feeders=feeders(context, node))
    if isinstance(request, Describe):
        return replace(known, affiliations=_first(rows, node, _OWNER))
    if isinstance(request, Configure) and not _is_announced(node, request.settings):
        return replace(known, audience=subscribers(context, node)) if request.purges else known
    return _with_people(context, node, request, known)


def _with_people(
    context: Context, node: Node, request: Declare | Configure | Delete | Purge, known: NodeFacts
) -> NodeFacts:
    """Add the subscribers that are to be notified, or whose subscriptions may have to end."""
    rows = context.rows
    if isinstance(request, Delete | Purge):
        service = context.service.account
        return replace(known, audience=subscribers(context, node), service=service)
    known = replace(
        known,
        audience=subscribers(context, node),
        subscriptions=all_subscriptions(rows, node),
    )
    if isinstance(request, Declare):
        everybody = rows.page(listings.AffiliationsOf(node.name), None, ALL)
        return replace(known, affiliations=_pairs(everybody))
    if isinstance(known.subscriptions, Everybody):
        return known
    accounts = dict.fromkeys(account_of(one.jid) for one in known.subscriptions)
    roles = tuple((account, rows.affiliation(node.name, account)) for account in accounts)
    return replace(known, affiliations=roles)


def around(context: Context, by: Principal, node: Node) -> Others:
    """Return the nodes that feed a node, or that it feeds."""
    source = (NodeName(node.config.source),) if node.config.source else ()
    return others_of(context, by, (*source, *(feed.queue for feed in node.config.feeds)))


def feeders(context: Context, node: Node) -> tuple[Feeder, ...]:
    """Return the queues that a plain node feeds, and the accounts that have set that."""
    rows = context.rows
    return tuple(
        Feeder(
            rows.node(feed.queue),
            feed,
            context.principal(feed.by),
            *rows.rights(node.name, feed.by),
        )
        for feed in node.config.feeds
    )


_OWNER: Final = Affiliation.OWNER
_PUBLISHERS: Final = (Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY)


def _first(rows: WorkingSet, node: Node, *roles: Affiliation) -> Pairs:
    """Return the first accounts with each of these affiliations."""
    found = (
        rows.page(listings.AffiliationsOf(node.name, (role,)), None, MAX_OWNERS) for role in roles
    )
    return tuple(pair for some in found for pair in _pairs(some))


def _pairs(found: Iterable[AffiliationRow]) -> Pairs:
    return tuple((row.account, row.affiliation) for row in found)


def _is_announced(node: Node, settings: Settings) -> bool:
    """Return whether these settings may shut subscribers out, or subscribers are notified of them."""
    after = configure(node.config, settings)
    if not isinstance(after, NodeConfig):
        return False
    return after.notify_config or after.access_model is not node.config.access_model


def for_affiliations(context: Context, request: SetAffiliations | SetPolicy) -> NodeFacts:
    """Return the affiliations of the named accounts, and enough owners that another one is among them."""
    rows = context.rows
    node = rows.counted(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    known = NodeFacts(context.now, node, affiliation, context.terms.policy)
    if node is None or not nodes.manages(request.by, node, affiliation):
        return known
    if isinstance(request, SetPolicy):
        wanted, former = request.policy.gives, node.config.policy.gives
    else:
        wanted, former = request.entries, ()
    named = tuple(dict.fromkeys(account_of(jid) for jid, _ in (*wanted, *former)))
    listing = listings.AffiliationsOf(node.name, (Affiliation.OWNER,))
    owners = dict(_pairs(rows.page(listing, None, len(named) + 1)))
    roles = {account: rows.affiliation(node.name, account) for account in named}
    there = {account: role for account, role in roles.items() if role is not Affiliation.NONE}
    mine = [rows.subscriptions_in(node.name, account) for account in named]
    asks = node.config.access_model is AccessModel.AUTHORIZE
    asks &= any(is_a is Affiliation.OWNER for _, is_a in wanted)
    pending = listings.SubscriptionsOf(node.name, SubscriptionState.PENDING)
    return replace(
        known,
        affiliations=tuple((owners | there).items()),
        subscriptions=tuple(one for group in mine for one in group),
        waiting=tuple(rows.page(pending, None, AT_ONCE)) if asks else (),
        feeders=feeders(context, node) if node.config.feeds else (),
        others=around(context, request.by, node) if node.config.source else NOTHING_NAMED,
    )


# Facts for trims, and for publishes to a full node: the first items of a node.


def for_trim(context: Context, request: TrimItems) -> TrimItemsFacts:
    """Return the items that have to be removed next, or those whose lifetimes are to be shortened."""
    rows = context.rows
    node = rows.counted(request.node)
    if node is None:
        return TrimItemsFacts(None, ())
    if request.group is not None:
        limit = trimming.groups_of_slice(node.config)
        groups = rows.page(listings.WaitingGroups(node.name), request.group, limit)
        return TrimItemsFacts(node, (), groups=tuple(groups))
    says_so = truncates(node.config) and rows.item(node.name, STATUS_ID) is not None
    if (over := trimming.excess(node, says_so=says_so)) is not None:
        if node.config.queueing:
            found = oldest(rows, node.name, trimming.SLICE, request.after)
            service = context.service.account
            return TrimItemsFacts(node, found, (), (), context.now, service, says_so)
        many = trimming.SLICE if over.bytes else min(over.items, trimming.SLICE)
        gone = oldest(rows, node.name, many)
        return TrimItemsFacts(node, gone, audience(context, node))
    if node.config.item_expire is None:
        return TrimItemsFacts(node, ())
    return TrimItemsFacts(node, oldest(rows, node.name, trimming.SLICE, request.after))


def for_resume_trims(context: Context, _request: ResumeTrims) -> ResumeTrimsFacts:
    """Return a node that has to be trimmed."""
    return ResumeTrimsFacts(next(iter(context.rows.page(listings.Trims())), None))


# Facts for queues that are deleted when they are unused: the next nodes, by name.


def for_unused(context: Context, request: DeleteUnused) -> UnusedFacts:
    """Return the next nodes that may have to be deleted."""
    rows = context.rows
    found = rows.page(listings.Nodes(), request.after or None, SLICE)
    last = found[-1].name if len(found) == SLICE else NodeName("")
    names = [node.name for node in found if is_kept_for_a_time(node)]
    there = [rows.counted(name) for name in names]
    queues = [(node, around(context, context.service, node)) for node in there if node is not None]
    return UnusedFacts(context.now, tuple(queues), last)
