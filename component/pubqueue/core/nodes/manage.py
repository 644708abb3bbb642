"""Create, configure, purge and delete nodes; their affiliations; what is visible of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import (
    BeginReview,
    BeginTrim,
    Change,
    ConfigureNode,
    CreateNode,
    DeleteNode,
    PurgeNode,
    SetAffiliation,
)
from pubqueue.core.decision import (
    Affiliations,
    Created,
    Decision,
    Described,
    Done,
    Emptied,
    Listed,
    Refusal,
    Refused,
    refuse,
)
from pubqueue.core.model import Affiliation, Jid, Millis, Node, NodeConfig, NodeName, Principal
from pubqueue.core.nodes import access, names
from pubqueue.core.nodes.access import Action, CreationPolicy
from pubqueue.core.nodes.nodeconfig import Settings, configure, refit
from pubqueue.core.nodes.notifications import notifies, notify
from pubqueue.core.nodes.references import NOTHING_NAMED, Others, bind
from pubqueue.core.nodes.subscriptions.pending import reconsidered
from pubqueue.core.nodes.subscriptions.review import ReviewSubscribers
from pubqueue.core.nodes.subscriptions.subscribe import wanted as approvals
from pubqueue.core.nodes.trimming import TrimItems, begins
from pubqueue.core.notices import EVERYBODY, NOBODY, Configured, Deleted, Everybody, Purged
from pubqueue.core.reading.listing import WHOLE, Page, Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.core.decision import Reply
    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import ItemId, Subscription
    from pubqueue.core.notices import Audience, News


class Create(Struct, frozen=True, gc=False):
    """Make a node (XEP-0060 8.1), with these settings; the others are as for any new node."""

    by: Principal
    node: NodeName
    settings: Settings


class Describe(Struct, frozen=True, gc=False):
    """Ask for a node: for its settings where `manage`, else for what everybody may know."""

    by: Principal
    node: NodeName
    manage: bool


class Configure(Struct, frozen=True, gc=False):
    """Change the settings of a node (XEP-0060 8.2)."""

    by: Principal
    node: NodeName
    settings: Settings


class Delete(Struct, frozen=True, gc=False):
    """Delete a node with all that is in it (XEP-0060 8.4); what takes its place is at `uri`, if anything does."""

    by: Principal
    node: NodeName
    uri: str = ""


class Purge(Struct, frozen=True, gc=False):
    """Delete all items of a node (XEP-0060 8.5)."""

    by: Principal
    node: NodeName


class GetAffiliations(Struct, frozen=True, gc=False):
    """Ask for the affiliations of the node (XEP-0060 8.9.1)."""

    by: Principal
    node: NodeName
    page: Page | None = None


class SetAffiliations(Struct, frozen=True, gc=False):
    """Change the affiliations of the node (XEP-0060 8.9.2)."""

    by: Principal
    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]


class Types(Struct, frozen=True, gc=False):
    """Types of payloads: only nodes of these are `included`, or all but those that are `excluded`."""

    included: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()


class ListNodes(Struct, frozen=True, gc=False):
    """Ask for the nodes of the service (XEP-0060 5.2), of all types or of some."""

    by: Principal
    page: Page | None = None
    types: Types | None = None


class ListItems(Struct, frozen=True, gc=False):
    """Ask for the ids of a node's items (XEP-0060 5.5)."""

    by: Principal
    node: NodeName
    page: Page | None = None


class NodeFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and the other accounts that the request needs.

    `audience` are subscribers, and `affiliations` are those that the request is about or may have
    to check: with 10,000 accounts on a node they are not all loaded to answer one.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    policy: CreationPolicy = CreationPolicy.LOCAL
    audience: Audience = ()
    affiliations: tuple[tuple[Jid, Affiliation], ...] = ()
    subscriptions: tuple[Subscription, ...] | Everybody = ()
    """Subscriptions that may have to end, or need wait for approval no more."""
    waiting: tuple[Subscription, ...] = ()
    """Subscriptions that wait for approval, for a new owner."""
    subscribed: bool = False
    items: tuple[ItemId, ...] = ()
    part: Part = WHOLE
    after_missing: bool = False
    others: Others = NOTHING_NAMED
    """The nodes that the wanted settings name."""
    allowance: Allowance | None = None
    """The quota of the account that creates a node; None if it may create any number."""


class NodeListFacts(Struct, frozen=True, gc=False):
    """Nodes by name, each with what the principal is to it."""

    nodes: tuple[tuple[Node, Affiliation], ...]
    part: Part = WHOLE


def create(request: Create, facts: NodeFacts) -> Decision:
    """Decide a creation; the principal becomes the owner. Settings that do not fit leave no node."""
    if not access.may_create(request.by, facts.policy):
        return refuse(Refusal.FORBIDDEN, "you may not create nodes on this service")
    if (no := names.taken(request.by, request.node)) is not None:
        return Decision(no)
    if facts.node is not None:
        return refuse(Refusal.NODE_EXISTS)
    if facts.allowance is not None and (no := facts.allowance.refuses_node()) is not None:
        return Decision(no)
    people = {request.by.account: Affiliation.OWNER}
    wanted = request.node, request.settings, request.by
    return make_node(*wanted, facts.now, people, facts.others)


def make_node(  # noqa: PLR0917  # what is made, by whom and when, and what is known of others
    name: NodeName,
    settings: Settings,
    by: Principal,
    now: Millis,
    people: Mapping[Jid, Affiliation],
    others: Others = NOTHING_NAMED,
) -> Decision:
    """Create a node with these settings and affiliations."""
    config = configure(NodeConfig(), settings)
    if isinstance(config, NodeConfig):
        config = bind(by, NodeConfig(), config, others)
    if isinstance(config, Refused):
        return Decision(config)
    node = Node(name, config, by.account, now)
    if (misfit := refit(node, config) or unheld(by, config)) is not None:
        return Decision(misfit)
    joined = (SetAffiliation(name, *entry) for entry in people.items())
    return Decision(Created(name), (CreateNode(node), *joined))


def unheld(by: Principal, config: NodeConfig) -> Refused | None:
    """Refuse an access model that the rosters of owners decide, where these cannot be asked for (XEP-0356)."""
    if config.access_model not in access.OF_ROSTERS or by.rosters:
        return None
    reason = "access_model: the server does not give the service access to rosters"
    return Refused(Refusal.UNSUPPORTED_ACCESS_MODEL, reason, setting="access_model")


def describe(request: Describe, facts: NodeFacts) -> Decision:
    """Decide whether the principal may see the node; its settings are for owners only."""
    owners = tuple(jid for jid, is_a in facts.affiliations if is_a is Affiliation.OWNER)
    if request.manage:
        managed = _managed(request, facts)
        return managed if isinstance(managed, Decision) else Decision(Described(managed, owners))
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    standing = access.standing(request.by, facts.affiliation)
    depth = facts.node.items if access.may(standing, Action.OBSERVE, facts.node) else None
    writes = {Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY}
    publishers = tuple(jid for jid, is_a in facts.affiliations if is_a in writes)
    seen = sees(request.by, facts.node, facts.affiliation)
    return Decision(Described(facts.node, owners, publishers if seen else (), depth))


def configure_node(request: Configure, facts: NodeFacts) -> Decision:
    """Decide about new settings; only those that are named change."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    config = configure(node.config, request.settings)
    if isinstance(config, Refused):
        return Decision(config)
    bound = bind(request.by, node.config, config, facts.others)
    if isinstance(bound, Refused):
        return Decision(bound)
    config = bound
    newly = config.access_model is not node.config.access_model
    if (
        misfit := refit(node, config) or (unheld(request.by, config) if newly else None)
    ) is not None:
        return Decision(misfit)
    changes: tuple[Change, ...] = (ConfigureNode(node.name, config), *trimmed(node, config))
    after = replace(node, config=config)
    subscriptions = facts.subscriptions if newly else ()
    done = reviewed(after, Done(), changes, subscriptions, dict(facts.affiliations))
    announced = _configured(node, after, facts.audience)
    return replace(done, notices=(*done.notices, *announced))


def _configured(before: Node, after: Node, audience: Audience) -> tuple[News, ...]:
    """Return the notice of new settings (XEP-0060 8.2.5.3), if the node sends it."""
    if not after.config.notify_config or after.config == before.config:
        return ()
    announced = after.config if after.config.deliver_payloads else None
    return notify(after, audience, Configured(NOBODY, after.name, announced))


def trimmed(node: Node, config: NodeConfig) -> tuple[Change, ...]:
    """Note that what the node keeps is to be brought to its settings, where that is not done with a change of them."""
    return (BeginTrim(node.name),) if node.items and begins(node.config, config) else ()


def delete(request: Delete, facts: NodeFacts) -> Decision:
    """Decide a deletion; locks do not stop it, later settles find no node (row 16)."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    announced = facts.audience if node.config.notify_delete and notifies(node) else ()
    notices = notify(node, announced, Deleted(NOBODY, node.name, request.uri))
    gone = DeleteNode(node.name, announced is EVERYBODY, request.uri)
    return Decision(Done(), (gone,), notices)


def purge(request: Purge, facts: NodeFacts) -> Decision:
    """Decide a purge: one event for each subscriber, no retracts."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    if not node.config.persists:  # XEP-0060 8.5.3.3
        return Decision(Refused(Refusal.UNSUPPORTED, setting="persistent-items"))
    notices = notify(node, facts.audience, Purged(NOBODY, node.name))
    gone = PurgeNode(node.name, node.items)
    return Decision(Emptied(node.name, node.items), (gone,), notices)


def get_affiliations(request: GetAffiliations, facts: NodeFacts) -> Decision:
    """Decide whether the principal may see the affiliations."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    return Decision(Affiliations(node.name, facts.affiliations, facts.part))


def set_affiliations(request: SetAffiliations, facts: NodeFacts) -> Decision:
    """Decide about affiliations: a node always keeps an owner, and what else was asked is done (XEP-0060 8.9.2.4)."""
    node = _managed(request, facts)
    if isinstance(node, Decision):
        return node
    wanted = [(account_of(jid), affiliation) for jid, affiliation in request.entries]
    if any(count > 1 for count in Counter(jid for jid, _ in wanted).values()):
        return refuse(Refusal.BAD_REQUEST, "a JID is named twice")
    before = dict(facts.affiliations)
    after = before | dict(wanted)
    if Affiliation.OWNER in after.values():
        return _affiliated(node, facts, before, wanted, Done())
    owners = [(jid, before[jid]) for jid, _ in wanted if before.get(jid) is Affiliation.OWNER]
    no = Refused(Refusal.LAST_OWNER, "a node must have an owner", unchanged=tuple(owners))
    others = [entry for entry in wanted if before.get(entry[0]) is not Affiliation.OWNER]
    return _affiliated(node, facts, before, others, no)


def _affiliated(
    node: Node,
    facts: NodeFacts,
    before: Mapping[Jid, Affiliation],
    wanted: Sequence[tuple[Jid, Affiliation]],
    reply: Reply,
) -> Decision:
    """Change affiliations; a new owner is asked to approve waiting subscriptions (XEP-0060 8.6, 8.7.4)."""
    named = dict(wanted)
    subscriptions = () if isinstance(facts.subscriptions, Everybody) else facts.subscriptions
    mine = [one for one in subscriptions if account_of(one.jid) in named]
    changes, announced = reconsidered(node, mine, {**before, **named})
    joined: tuple[Change, ...] = tuple(SetAffiliation(node.name, *entry) for entry in wanted)
    new = [
        jid
        for jid, is_a in wanted
        if is_a is Affiliation.OWNER and before.get(jid) is not Affiliation.OWNER
    ]
    left = [one for one in facts.waiting if one not in mine]
    asked = tuple(ask for one in left for ask in approvals(one, new))
    return Decision(reply, joined + changes, (*announced, *asked))


def reviewed(
    node: Node,
    reply: Reply,
    changes: tuple[Change, ...],
    subscriptions: tuple[Subscription, ...] | Everybody,
    affiliations: Mapping[Jid, Affiliation],
) -> Decision:
    """Make the changes, end the subscriptions that would be refused now, and approve those that need no approval any more.

    If items are to be trimmed, or very many subscribers to be reviewed, the requester is answered
    after that.
    """
    crowd = isinstance(subscriptions, Everybody)
    begun, announced = reconsidered(
        node, () if isinstance(subscriptions, Everybody) else subscriptions, affiliations
    )
    if crowd:
        begun = (BeginReview(node.name),)
    then: TrimItems | ReviewSubscribers | None = None
    if any(isinstance(change, BeginTrim) for change in changes):
        then = TrimItems(node.name, reply, review=crowd)
    elif crowd:
        then = ReviewSubscribers(node.name, reply)
    return Decision(reply, changes + begun, announced, then=then)


def list_nodes(request: ListNodes, facts: NodeListFacts) -> Decision:
    """Name the nodes that the principal may see (XEP-0060 5.2)."""
    seen = tuple(
        (node.name, node.config.title)
        for node, affiliation in facts.nodes
        if sees(request.by, node, affiliation)
    )
    return Decision(Listed(seen, None, facts.part))


def sees(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal may know that the node exists."""
    return access.barred(access.standing(by, affiliation), node) is None


def list_items(request: ListItems, facts: NodeFacts) -> Decision:
    """Name the items of a node; on a queue to its owners only (XEP-0254 row 14)."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node)) is not None:
        return refuse(closed)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    sees = sees_items(request.by, node, facts.affiliation, subscribed=facts.subscribed)
    shown = facts.items if sees else ()
    return Decision(Listed(tuple((item, "") for item in shown), node.name, facts.part))


def sees_items(
    by: Principal, node: Node, affiliation: Affiliation, *, subscribed: bool = False
) -> bool:
    """Return whether the principal may see the ids of the items."""
    standing = access.standing(by, affiliation)
    if node.config.queueing and standing is not Affiliation.OWNER:
        return False
    return access.may(standing, Action.RETRIEVE, node, subscribed=subscribed)


def manages(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal may manage the node (XEP-0060 14.2)."""
    return access.may(access.standing(by, affiliation), Action.MANAGE, node)


def _managed(
    request: Describe | Configure | Delete | Purge | GetAffiliations | SetAffiliations,
    facts: NodeFacts,
) -> Node | Decision:
    """Return the node if the principal may manage it (XEP-0060 14.2)."""
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not manages(request.by, facts.node, facts.affiliation):
        return refuse(Refusal.FORBIDDEN)
    return facts.node
