"""Create, configure, purge and delete nodes; their affiliations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import (
    BeginReview,
    BeginTrim,
    Change,
    ConfigureNode,
    CreateNode,
    DeleteNode,
    PurgeNode,
    SetAffiliation,
)
from pubqueue.model.decision import Decision, Done, Read, Refusal, Refused, Request, refuse
from pubqueue.model.entities import (
    Affiliation,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Policy,
    Principal,
    account_of,
)
from pubqueue.model.notices import (
    EVERYBODY,
    NOBODY,
    Configured,
    Deleted,
    Everybody,
    Purged,
    notifies,
    notify,
)
from pubqueue.model.replies import WHOLE, Affiliations, Created, Emptied, Page, Part
from pubqueue.rules import access, feed
from pubqueue.rules.access import NOTHING_NAMED, Action, CreationPolicy, Others, bind
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.nodeconfig import MAX_LENGTH, Settings, configure, refit
from pubqueue.rules.room import status_item
from pubqueue.rules.subscribe import wanted as approvals
from pubqueue.rules.subscribers import reconsidered
from pubqueue.rules.trimming import TrimItems, begins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import ItemId, Subscription
    from pubqueue.model.notices import Audience, News
    from pubqueue.rules.feed import Feeder
    from pubqueue.rules.room import Allowance


class Create(Request, frozen=True, gc=False):
    """Create a node (XEP-0060 8.1), with these settings; the others have their defaults."""

    by: Principal
    node: NodeName
    settings: Settings


class Configure(Request, frozen=True, gc=False):
    """Change the settings of a node (XEP-0060 8.2). With `purges` all its items are deleted.

    With `queueing`, here and in the requests below, only a node of that kind is meant.
    """

    by: Principal
    node: NodeName
    settings: Settings
    purges: bool = False
    queueing: bool | None = None


class Delete(Request, frozen=True, gc=False):
    """Delete a node with all its items (XEP-0060 8.4); `uri` is the address of its replacement, if there is one.

    With `with_fed` the queues that it feeds are deleted too, all or nothing; the principal has to own them.
    """

    by: Principal
    node: NodeName
    uri: str = ""
    with_fed: bool = False
    queueing: bool | None = None


class Purge(Request, frozen=True, gc=False):
    """Delete all items of a node (XEP-0060 8.5). With `says_so` a queue has an item afterwards that reports it."""

    by: Principal
    node: NodeName
    says_so: bool = False
    queueing: bool | None = None


class GetAffiliations(Read, frozen=True, gc=False):
    """Request the affiliations of the node (XEP-0060 8.9.1)."""

    node: NodeName
    page: Page | None = None


class SetAffiliations(Request, frozen=True, gc=False):
    """Change the affiliations of the node (XEP-0060 8.9.2)."""

    by: Principal
    node: NodeName
    entries: tuple[tuple[Jid, Affiliation], ...]


class SetPolicy(Request, frozen=True, gc=False):
    """Replace the policy of the node, with the affiliations that it gives, if the former one has this etag (None: any).

    An account that only the former policy has named loses what that gave it. The creator of the node stays its owner.
    """

    by: Principal
    node: NodeName
    policy: Policy
    etag: str | None = None
    queueing: bool | None = None


class NodeFacts(Struct, frozen=True, gc=False):
    """The node, the principal's affiliation, and the other accounts that the request needs.

    `audience` are subscribers, and `affiliations` those that the request names or may have to
    check: with 10,000 accounts on a node they are not all loaded for one answer.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    policy: CreationPolicy = CreationPolicy.LOCAL
    audience: Audience = ()
    affiliations: tuple[tuple[Jid, Affiliation], ...] = ()
    subscriptions: tuple[Subscription, ...] | Everybody = ()
    """Subscriptions that may have to end, or no longer need approval."""
    waiting: tuple[Subscription, ...] = ()
    """Subscriptions that wait for approval, for a new owner."""
    subscribed: bool = False
    items: tuple[ItemId, ...] = ()
    part: Part = WHOLE
    after_missing: bool = False
    others: Others = NOTHING_NAMED
    """The nodes that the wanted settings name, or that a node to delete feeds or is fed by."""
    feeders: tuple[Feeder, ...] = ()
    """The queues that the node feeds, if the request may end that."""
    service: Jid = Jid("")
    """The service's own account."""
    allowance: Allowance | None = None
    """The quota of the account that creates a node; None if it may create any number."""


def create(request: Create, facts: NodeFacts) -> Decision:
    """Decide a creation; the principal becomes the owner. With invalid settings no node is created."""
    if not access.may_create(request.by, facts.policy):
        return refuse(Refusal.FORBIDDEN, "you may not create nodes on this service")
    if (no := access.taken(request.by, request.node)) is not None:
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
        config = may_become(by, name, NodeConfig(), config, others)
    if isinstance(config, Refused):
        return Decision(config)
    node = Node(name, config, by.account, now)
    if (misfit := refit(node, config) or unheld(by, config)) is not None:
        return Decision(misfit)
    joined = (SetAffiliation(name, *entry) for entry in people.items())
    fed = feed.attached(by, name, NodeConfig(), config, others)
    made = Created(name, missing_dead_letter_node(settings, config, others))
    return Decision(made, (CreateNode(node), *joined, *fed))


def missing_dead_letter_node(wanted: Settings, config: NodeConfig, others: Others) -> str:
    """Return the dead-letter node that the wanted settings give a queue, if it does not exist; otherwise an empty text."""
    place = config.dead_letter_node
    if not config.queueing or "dead_letter_node" not in wanted.values:
        return ""
    other = others.nodes.get(NodeName(place)) if place else None
    return place if other is not None and other.node is None else ""


def may_become(
    by: Principal, name: NodeName, before: NodeConfig, after: NodeConfig, others: Others
) -> NodeConfig | Refused:
    """Return the settings, bound to the nodes that they name, or why the principal may not set one of these."""
    no = feed.unfit(name, before, after, others) or feed.forbidden(by, before, after, others)
    return bind(by, before, after, others) if no is None else no


def unheld(by: Principal, config: NodeConfig) -> Refused | None:
    """Refuse an access model that the rosters of owners decide, if these cannot be read (XEP-0356)."""
    if config.access_model not in access.OF_ROSTERS or by.rosters:
        return None
    reason = "access_model: the server does not give the service access to rosters"
    return Refused(Refusal.UNSUPPORTED_ACCESS_MODEL, reason, setting="access_model")


def configure_node(request: Configure, facts: NodeFacts) -> Decision:
    """Decide about new settings; only named ones change."""
    node = managed(request.by, facts, request.queueing)
    if isinstance(node, Decision):
        return node
    config = configure(node.config, request.settings)
    if isinstance(config, Refused):
        return Decision(config)
    bound = may_become(request.by, node.name, node.config, config, facts.others)
    if isinstance(bound, Refused):
        return Decision(bound)
    config = bound
    newly = config.access_model is not node.config.access_model
    if (
        misfit := refit(node, config) or (unheld(request.by, config) if newly else None)
    ) is not None:
        return Decision(misfit)
    after = replace(node, config=config)
    changes: tuple[Change, ...] = (
        ConfigureNode(node.name, config),
        *trimmed(node, config),
        *feed.attached(request.by, node.name, node.config, config, facts.others),
        *feed.reconsidered(after, facts.feeders, {}),
    )
    subscriptions = facts.subscriptions if newly else ()
    reply = Done(missing=missing_dead_letter_node(request.settings, config, facts.others))
    done = reviewed(after, reply, changes, subscriptions, dict(facts.affiliations))
    notices = (*done.notices, *_configured(node, after, facts.audience))
    if not request.purges:
        return replace(done, notices=notices)
    gone = PurgeNode(node.name, node.items)
    purged = notify(after, facts.audience, Purged(NOBODY, node.name))
    return replace(done, changes=(*done.changes, gone), notices=(*notices, *purged))


def _configured(before: Node, after: Node, audience: Audience) -> tuple[News, ...]:
    """Return the notice of new settings (XEP-0060 8.2.5.3), if the node sends it."""
    if not after.config.notify_config or after.config == before.config:
        return ()
    announced = after.config if after.config.deliver_payloads else None
    return notify(after, audience, Configured(NOBODY, after.name, announced))


def trimmed(node: Node, config: NodeConfig) -> tuple[Change, ...]:
    """Note that the node has to be trimmed to its settings, unless a change of its items does that."""
    return (BeginTrim(node.name),) if node.items and begins(node.config, config) else ()


def delete(request: Delete, facts: NodeFacts) -> Decision:
    """Decide a deletion; locks do not prevent it, later settles find no node (row 16)."""
    node = managed(request.by, facts, request.queueing)
    if isinstance(node, Decision):
        return node
    announced = facts.audience if node.config.notify_delete and notifies(node) else ()
    notices = notify(node, announced, Deleted(NOBODY, node.name, request.uri))
    gone = DeleteNode(node.name, announced is EVERYBODY, request.uri)
    if not request.with_fed:
        return Decision(Done(), (*feed.detached(node, facts.others), gone), notices)
    fed = _fed_queues(request.by, node, facts.others)
    if isinstance(fed, Refused):
        return Decision(fed)
    notifying = [queue for queue in fed if queue.config.notify_delete and notifies(queue)]
    for queue in notifying:
        notices += notify(queue, EVERYBODY, Deleted(NOBODY, queue.name))
    ended = tuple([DeleteNode(queue.name, queue in notifying) for queue in fed])
    return Decision(Done(), (*ended, gone), notices)


def _fed_queues(by: Principal, node: Node, others: Others) -> list[Node] | Refused:
    """Return the queues that the node feeds, or refuse if the principal may not manage all of them."""
    found = [others.nodes[feed.queue] for feed in node.config.feeds if feed.queue in others.nodes]
    there = [(one.node, one.affiliation) for one in found if one.node is not None]
    foreign = sum(not manages(by, queue, affiliation) for queue, affiliation in there)
    if foreign:
        words = f"the node feeds {foreign} queues of other owners"
        return Refused(Refusal.PRECONDITION_NOT_MET, words, foreign)
    return [queue for queue, _ in there]


def purge(request: Purge, facts: NodeFacts) -> Decision:
    """Decide a purge: one event for each subscriber, no retracts."""
    node = managed(request.by, facts, request.queueing)
    if isinstance(node, Decision):
        return node
    if not node.config.persists:  # XEP-0060 8.5.3.3
        return Decision(Refused(Refusal.UNSUPPORTED, setting="persistent-items"))
    notices = notify(node, facts.audience, Purged(NOBODY, node.name))
    leaves = None
    if request.says_so and node.config.queueing:
        leaves = status_item(node.name, facts.service, facts.now)
    gone = PurgeNode(node.name, node.items, leaves)
    return Decision(Emptied(node.name, node.items), (gone,), notices)


def get_affiliations(request: GetAffiliations, facts: NodeFacts) -> Decision:
    """Decide whether the principal may see the affiliations."""
    node = managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    return Decision(Affiliations(node.name, facts.affiliations, facts.part))


def set_affiliations(request: SetAffiliations, facts: NodeFacts) -> Decision:
    """Decide about affiliations: a node always keeps an owner, and the other requested changes are made (XEP-0060 8.9.2.4)."""
    decision = _set_affiliations(request, facts)
    return decision if facts.node is None else _inherited(request.by, facts.node, facts, decision)


def _inherited(by: Principal, node: Node, facts: NodeFacts, decision: Decision) -> Decision:
    """Add what becomes of the source of a queue whose owners change."""
    if not node.config.source:
        return decision
    joined = [one for one in decision.changes if isinstance(one, SetAffiliation)]
    becomes = {one.jid: one.affiliation for one in joined}
    more = feed.inherited(by, node, facts.others, becomes)
    return replace(decision, changes=(*decision.changes, *more))


def _set_affiliations(request: SetAffiliations, facts: NodeFacts) -> Decision:
    node = managed(request.by, facts)
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


def set_policy(request: SetPolicy, facts: NodeFacts) -> Decision:
    """Decide about a policy: it and the affiliations that it gives are changed together, or nothing is."""
    node = managed(request.by, facts, request.queueing)
    if isinstance(node, Decision):
        return node
    former = node.config.policy
    if request.etag not in {None, former.etag}:
        return refuse(Refusal.PRECONDITION_NOT_MET, "the policy is another one now")
    if len(request.policy.text) > MAX_LENGTH:
        return refuse(Refusal.INVALID_CONFIG, f"a policy has at most {MAX_LENGTH} characters")
    before = dict(facts.affiliations)
    gives = dict(request.policy.gives)
    gives.pop(node.creator, None)
    loses = {
        account: Affiliation.NONE
        for account, given in former.gives
        if account not in gives and before.get(account) is given
    }
    becomes = {one: is_a for one, is_a in gives.items() if before.get(one) is not is_a} | loses
    if Affiliation.OWNER not in (before | becomes).values():
        return refuse(Refusal.LAST_OWNER, "a node must have an owner")
    policy = replace(request.policy, gives=tuple(gives.items()))
    after = replace(node, config=replace(node.config, policy=policy))
    done = _affiliated(after, facts, before, tuple(becomes.items()), Done())
    done = replace(done, changes=(ConfigureNode(node.name, after.config), *done.changes))
    return _inherited(request.by, after, facts, done)


def _affiliated(
    node: Node,
    facts: NodeFacts,
    before: Mapping[Jid, Affiliation],
    wanted: Sequence[tuple[Jid, Affiliation]],
    reply: Reply,
) -> Decision:
    """Change affiliations; a new owner gets the requests of waiting subscriptions (XEP-0060 8.6, 8.7.4)."""
    named = dict(wanted)
    subscriptions = () if isinstance(facts.subscriptions, Everybody) else facts.subscriptions
    mine = [one for one in subscriptions if account_of(one.jid) in named]
    changes, announced = reconsidered(node, mine, {**before, **named})
    joined: tuple[Change, ...] = tuple(SetAffiliation(node.name, *entry) for entry in wanted)
    joined += feed.reconsidered(node, facts.feeders, named)
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
    """Make the changes, end the subscriptions that would be refused now, and approve those that no longer need approval.

    If items are to be trimmed, or very many subscribers to be reviewed, the requester is answered after that.
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


def manages(by: Principal, node: Node, affiliation: Affiliation) -> bool:
    """Return whether the principal may manage the node (XEP-0060 14.2)."""
    return access.may(access.standing_of(by, affiliation), Action.MANAGE, node)


def managed(by: Principal, facts: NodeFacts, queueing: bool | None = None) -> Node | Decision:  # noqa: FBT001  # as the request has it
    """Return the node if the principal may manage it (XEP-0060 14.2), and it is of this kind."""
    if facts.node is None or queueing is (not facts.node.config.queueing):
        return refuse(Refusal.NODE_NOT_FOUND)
    if not manages(by, facts.node, facts.affiliation):
        return refuse(Refusal.FORBIDDEN)
    return facts.node
