"""Facts for publishes, plain, staged and fed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.engine import cron_times
from pubqueue.engine.listings import UNBOUNDED, ItemEntries, Schedules, Unfed
from pubqueue.engine.rows import (
    AFFILIATIONS,
    FED_MESSAGES,
    FEEDINGS,
    KEY_TOTALS,
    SCHEDULES,
    SECRETS,
    USED_KEYS,
)
from pubqueue.model.entities import (
    Affiliation,
    NodeConfig,
    NodeName,
    account_of,
    connection,
    digest,
)
from pubqueue.model.notices import EVERYBODY, Several
from pubqueue.model.records import (
    KeyFacts,
    content_of,
    mark_of_key,
    marked,
    message,
    name_of_message,
)
from pubqueue.model.schedules import MAX_SCHEDULES
from pubqueue.rules import filters, schedules, trimming
from pubqueue.rules.access import NOTHING_NAMED, AutoCreation, Other, Others, may_create, named
from pubqueue.rules.audience import CROWD
from pubqueue.rules.feed import elsewhere, follows, is_guest, too_much
from pubqueue.rules.nodeconfig import Settings, configure
from pubqueue.rules.publication import PLACES, TAKEN, Fed, JoinMet, Known, Met, PublishFacts
from pubqueue.rules.publish import (
    JUDGED,
    ROOM,
    SLICE,
    Copy,
    LookFacts,
    MarkFacts,
    ResumeFacts,
    SliceFacts,
)
from pubqueue.rules.publish_keys import KeepSecretFacts, UsedKeyFacts
from pubqueue.rules.room import growth_by, surplus
from pubqueue.rules.trimming import room_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.engine.context import Context
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.entities import Draft, Item, ItemId, Jid, Node, Principal, Subscription
    from pubqueue.model.notices import Audience, Everybody
    from pubqueue.model.records import Feeding, MarkedPublish, PublishKey
    from pubqueue.rules.publication import Publish
    from pubqueue.rules.publish import FeedSlice, LookAtFed, MarkPublish
    from pubqueue.rules.publish_keys import KeepSecret, ReadUsedKey
    from pubqueue.rules.room import Allowance


log = structlog.get_logger(__name__)


def _joins(context: Context, request: Publish) -> dict[tuple[NodeName, ItemId], JoinMet]:
    """Return the joins that the drafts of a publish name."""
    rows = context.rows
    found: dict[tuple[NodeName, ItemId], JoinMet] = {}
    for name, item in {one.joins.place for one in request.drafts if one.joins is not None}:
        node = rows.node(name)
        if node is None:
            found[name, item] = JoinMet(None, Affiliation.NONE, None)
            continue
        affiliation = rows.affiliation(name, request.by.account)
        found[name, item] = JoinMet(node, affiliation, rows.item(name, item))
    return found


# Facts for publishes, staged ones too: the items that already have the ids.


def for_publish(context: Context, request: Publish) -> PublishFacts:
    """Return the items that already have the drafts' ids."""
    rows = context.rows
    if request.key is not None:
        keyless = replace(request, key=None)
        return replace(for_publish(context, keyless), key=_of_key(context, request, request.key))
    node = rows.node(request.node)
    if node is None:
        return PublishFacts(
            *(context.now, None, Affiliation.NONE, False, ()),
            policy=context.terms.policy,
            creation=context.terms.auto_creation,
            others=others(context, request.by, NodeConfig(), request.options),
            allowance=_of_maker(context, request.by),
            joins=_joins(context, request),
        )
    joins: dict[tuple[NodeName, ItemId], JoinMet] = {}
    for draft in request.drafts:  # without a call: hardly any is a member
        if draft.joins is not None:
            joins = _joins(context, request)
            break
    plain = not node.config.queueing
    feeding = _feeding(context, node, request) if node.config.feeds else NOTHING_FED
    return PublishFacts(
        context.now,
        node,
        *rows.rights(node.name, request.by.account),
        tuple([existing(context, node, draft) for draft in request.drafts]),
        subscribers(context, node) if plain else (),
        _oldest(rows, node, request) if plain else (),
        fed=feeding.fed,
        hosts=feeding.hosts,
        followers=feeding.followers,
        mark=feeding.mark,
        allowance=context.allowance(node.creator),
        joins=joins,
    )


def _of_key(context: Context, request: Publish, key: PublishKey) -> KeyFacts:
    """Return the record of a key, and the total of all keys of its account."""
    rows, account = context.rows, request.by.account
    return KeyFacts(
        rows.row(USED_KEYS, mark_of_key(account, request.node, key.name)),
        rows.row(KEY_TOTALS, account),
        content_of(request.drafts, context.payloads.fingerprint),
    )


def for_used_key(context: Context, request: ReadUsedKey) -> UsedKeyFacts:
    """Return the record of a key."""
    mark = mark_of_key(request.by.account, request.node, request.key)
    return UsedKeyFacts(context.now, context.rows.row(USED_KEYS, mark))


def _of_maker(context: Context, by: Principal) -> Allowance | None:
    """Return the limits of an account that would create a node by publishing to it."""
    makes = context.terms.auto_creation is not AutoCreation.NEVER and may_create(
        by, context.terms.policy
    )
    return context.allowance(by.account) if makes else None


def others(context: Context, by: Principal, config: NodeConfig, wanted: Settings | None) -> Others:
    """Return the other nodes that new settings name."""
    after = config if wanted is None else configure(config, wanted)
    if not isinstance(after, NodeConfig):
        return NOTHING_NAMED
    names = [name for _, name in named(config, after)]
    if wanted is not None and "dead_letter_node" in wanted.values and after.dead_letter_node:
        names.append(NodeName(after.dead_letter_node))
    if config.source:
        names.append(NodeName(config.source))
    return others_of(context, by, names)


def others_of(context: Context, by: Principal, names: Iterable[NodeName]) -> Others:
    """Return other nodes, and the principal's affiliations with them."""
    rows, account = context.rows, by.account
    nodes = {name: Other(rows.node(name), *rows.rights(name, account)) for name in names}
    return Others(nodes, context.terms.policy) if nodes else NOTHING_NAMED


def _oldest(rows: WorkingSet, node: Node, request: Publish) -> tuple[Item, ...]:
    """Return the first items of a plain node, as many as may have to be removed."""
    many = 2 * len(request.drafts)
    if not node.config.persist_items:
        return _last(rows, node.name, many)
    room, byte_room = room_for(node)
    if (room is None and byte_room is None) or not node.items:
        return ()
    over = surplus(node, room, byte_room, growth_by(request.drafts, ()))
    if over.bytes:  # if they are smaller than the others, a trim removes the rest
        many += min(trimming.SLICE, 2 * over.bytes * node.items // max(node.bytes, 1))
    return oldest(rows, node.name, many) if over.items or over.bytes else ()


def _last(rows: WorkingSet, node: NodeName, many: int) -> tuple[Item, ...]:
    """Return the items of a transient node: as a rule the last one, which is remembered."""
    whole = rows.cache.whole
    if node in whole:
        return tuple(whole[node].values())
    found = oldest(rows, node, many)
    if not (rows.gathering or rows.lacking) and rows.first_items is None and len(found) < many:
        whole[node] = {item.seq: item for item in found}
    return found


AHEAD: Final = 2_000
"""Items that are loaded ahead for publishes to nodes that feed queues: as many as a batch may have to do with (`batch.MAX_WORK`)."""


def ahead(context: Context, request: Publish) -> None:
    """Return the needs of a later publish in the batch, in short form if these are only its ids."""
    rows, cache = context.rows, context.rows.cache
    names, node = [request.node], cache.nodes.get(request.node)
    key = request.node, request.by.account
    is_short = node is not None and node.config.queueing and not node.config.dedup_window
    if node is not None and node.config.feeds:
        names += [feed.queue for feed in node.config.feeds]
        if len(rows.needs.items) + len(names) * len(request.drafts) > AHEAD:
            return  # that is much: it is loaded when its turn comes, if it comes in this batch
        nodes = [cache.nodes.get(one) for one in names]
        is_short = not any(one is None or one.config.dedup_window for one in nodes)
    known = key in cache.of[AFFILIATIONS] and key in cache.of_account and request.key is None
    if not known or not is_short:
        for_publish(context, request)
        return
    for draft in request.drafts:
        for one in names:
            rows.item(one, draft.id)


def existing(context: Context, node: Node, draft: Draft) -> tuple[Known, Item | None]:
    """Return what the node knows of the draft's id."""
    rows = context.rows
    item = rows.item(node.name, draft.id)
    if item is not None:
        if not node.config.queueing:
            return Known.OTHER, item  # it is overwritten in any case
        there = rows.payload(item)
        same = bool(there) and not rows.lacking and context.payloads.same(there, draft.payload)
        return (Known.SAME if same else Known.OTHER), item
    if node.config.dedup_window:
        digest = rows.finished(node, draft.id, context.now)
        if digest is not None and digest == context.payloads.fingerprint(draft.payload):
            return Known.FINISHED, None
    return Known.NEW, None


class FedQueues(Struct, frozen=True, gc=False):
    """The queues that a plain node feeds, as the facts of a publish have them."""

    fed: tuple[Fed, ...] = ()
    hosts: int = 0
    followers: tuple[NodeName, ...] = ()
    mark: str = ""


NOTHING_FED: Final = FedQueues()


def _feeding(context: Context, node: Node, request: Publish) -> FedQueues:
    """Return the queues that get the items in this commit, and those that get them after it."""
    queues = fed_by(context, node)
    hosts = sum(not is_guest for _, is_guest in queues)
    is_much = too_much(hosts, request.drafts) is not None
    if not is_much and not follows(request, len(queues) - hosts):
        return FedQueues(fed(context, queues, request.drafts), hosts)
    followers = tuple([queue.name for queue, is_guest in queues if is_guest])
    here = [] if is_much else [one for one in queues if not one[1]]
    mark = _mark(context, request, "guests") if followers else ""
    return FedQueues(fed(context, here, request.drafts), hosts, followers, mark)


def fed_by(context: Context, node: Node) -> list[tuple[Node, bool]]:
    """Return the queues that a plain node feeds, and whether each is a guest there."""
    rows = context.rows
    found: list[tuple[Node, bool]] = []
    for feed in node.config.feeds:
        affiliation = rows.affiliation(node.name, feed.by)
        if (queue := rows.node(feed.queue)) is not None:
            found.append((queue, is_guest(context.principal(feed.by), affiliation)))
    return found


def fed(
    context: Context, queues: Iterable[tuple[Node, bool]], drafts: Sequence[Draft]
) -> tuple[Fed, ...]:
    """Return fed queues, and what they know of the drafts' ids."""
    offered = [(draft, filters.indexed(draft.headers)) for draft in drafts]
    return tuple(
        [
            Fed(
                queue,
                tuple([met(context, queue, *one) for one in offered]),
                context.allowance(queue.creator),
                is_guest,
            )
            for queue, is_guest in queues
        ]
    )


def met(context: Context, queue: Node, draft: Draft, headers: filters.Index) -> Met | None:
    """Return what a fed queue knows of a draft's id; None if its filter leaves the draft out."""
    if not filters.admits(queue.config.filter, headers):
        return None
    known, item = existing(context, queue, draft)
    if PLACES[known, None if item is None else item.state] not in TAKEN:
        return Met(known, item)
    other = elsewhere(draft.id, context.payloads.fingerprint(draft.payload))
    return Met(known, item, other, context.rows.item(queue.name, other) is not None)


def audience(context: Context, node: Node) -> Audience:
    """Return the audience of a plain node; a queue's items are delivered."""
    return () if node.config.queueing else subscribers(context, node)


def subscribers(context: Context, node: Node) -> Audience:
    """Return the subscribers of the node that are to be notified; a large audience is not loaded."""
    if node.subscriptions > CROWD:
        return EVERYBODY
    everybody = context.rows.audience(node.name)
    if not by_presence(node):
        return everybody
    if isinstance(everybody, Several):
        return Several(here(context, everybody.jids), everybody.subids)
    return here(context, everybody)


def by_presence(node: Node) -> bool:
    """Return whether only subscribers that are known to be online are notified (XEP-0060 12.6)."""
    return node.config.presence_based_delivery and not node.config.queueing


def here(context: Context, jids: tuple[Jid, ...]) -> tuple[Jid, ...]:
    """Return those of the JIDs that are known to be here: a full JID that we saw come, an account with any such JID.

    A connection of the service's own is here as long as it subscribes: its subscriptions end with it.
    """
    rows, service = context.rows, context.service.jid
    present = [(jid, rows.present(account_of(jid))) for jid in jids]
    return tuple(
        [
            jid
            for jid, there in present
            if jid in there
            or (there and account_of(jid) == jid)
            or connection(jid, service) is not None
        ]
    )


def all_subscriptions(rows: WorkingSet, node: Node) -> tuple[Subscription, ...] | Everybody:
    """Return all subscriptions to the node, including pending ones; a crowd is not listed."""
    return EVERYBODY if node.subscriptions > CROWD else tuple(rows.subscribers(node.name))


# The first items of a node, without their payloads.


def oldest(rows: WorkingSet, node: NodeName, many: int, after: int = 0) -> tuple[Item, ...]:
    """Return up to n items, the oldest first, after the number `after`."""
    if (kept := rows.first_items) is None:
        return _read(rows, node, many, after)
    while (wanted := kept.wanted(node, many)) is not None:  # no part starts after a number
        limit, through = wanted
        found = _read(rows, node, limit, through)
        if rows.gathering or rows.lacking:
            return ()
        kept.know(node, found, limit)
    return kept.first(node, many)


def _read(rows: WorkingSet, node: NodeName, many: int, after: int) -> tuple[Item, ...]:
    listing = ItemEntries(node, UNBOUNDED, state=None, payloads=False, room=UNBOUNDED)
    return tuple([entry.item for entry in rows.page(listing, after, many)])


# Facts for a publish that feeds more copies than one commit may add: its queues, its mark, and the next copies.


def for_look(context: Context, request: LookAtFed) -> LookFacts:
    """Return the next queues that may refuse the publish, as many as are judged in one slice."""
    node = context.rows.node(request.publish.node)
    if node is None:
        return LookFacts(None, (), 0, ends=True)
    many = max(1, JUDGED // len(request.publish.drafts))
    looked = request.looked + many
    hosts = _hosts(context, node)
    return LookFacts(node, tuple(hosts[request.looked : looked]), looked, ends=looked >= len(hosts))


def _hosts(context: Context, node: Node) -> list[Node]:
    """Return the queues that a plain node feeds, and that may refuse a publish."""
    return [queue for queue, is_guest in fed_by(context, node) if not is_guest]


def for_mark(context: Context, request: MarkPublish) -> MarkFacts:
    """Return what a publish has to know, and a mark for it. The guests have a mark of their own."""
    wanted = request.publish
    node = context.rows.node(wanted.node)
    hosts = [] if node is None else _hosts(context, node)
    return MarkFacts(
        for_publish(context, replace(wanted, guests_follow=True)),
        _mark(context, wanted),
        {queue.name: context.allowance(queue.creator) for queue in hosts},
    )


def _mark(context: Context, wanted: Publish, whose: str = "") -> str:
    """Return a mark that is not there. Marks are in the order of time, so the oldest is resumed first."""
    ids = "\x1f".join(
        [wanted.node, wanted.by.account, whose, *(draft.id for draft in wanted.drafts)]
    )
    beginning = f"{context.now:015d}.{digest(ids.encode()).hex()[:16]}"
    number = 0
    while context.rows.row(FEEDINGS, f"{beginning}.{number}") is not None:
        number += 1
    return f"{beginning}.{number}"


def for_slice(context: Context, request: FeedSlice) -> SliceFacts:
    """Return the next copies of a marked publish."""
    row = context.rows.row(FEEDINGS, request.mark)
    if row is None:
        return SliceFacts(context.now, None)
    what, width = marked(row), len(marked(row).queues)
    last = min(row.place + SLICE, what.copies)
    drafts = {n: _message(context, row, n) for n in range(row.place // width, -(-last // width))}
    copies: list[Copy] = []
    size, place = 0, row.place
    while place < last and size < ROOM:
        number, at = divmod(place, width)
        draft = drafts[number]
        copy = None if draft is None else _copy(context, what, draft, what.queues[at])
        if copy is not None:
            copies.append(copy)
            size += len(copy.draft.payload)
        place += 1
    return SliceFacts(context.now, row, tuple(copies), place)


def _message(context: Context, row: Feeding, number: int) -> Draft | None:
    found = context.rows.row(FED_MESSAGES, name_of_message(row.mark, number))
    if found is None:
        return None
    draft = message(found)
    if draft is None:  # the queues that have no copy yet get none
        log.error("fed_message.damaged", mark=row.mark, number=number)
    return draft


def _copy(context: Context, what: MarkedPublish, draft: Draft, name: NodeName) -> Copy | None:
    """Return a copy, unless the queue is gone, was made later under its name, or does not want it."""
    queue: Node | None = context.rows.node(name)
    if queue is None or not queue.config.queueing or queue.created > what.at:
        return None
    known = met(context, queue, draft, filters.indexed(draft.headers))
    if known is None:
        return None
    return Copy(draft, queue, known, context.allowance(queue.creator) if what.guests else None)


def for_resume(context: Context, _request: object) -> ResumeFacts:
    """Return the oldest mark."""
    return ResumeFacts(next(iter(context.rows.page(Unfed())), None))


# Facts for secrets of the service.


def for_secret(context: Context, request: KeepSecret) -> KeepSecretFacts:
    """Return the secret of the name."""
    return KeepSecretFacts(context.rows.row(SECRETS, request.proposed.name))


# Facts for schedules: the schedule under a name, and the facts for its publish.

SHOWN: Final = 50
"""Schedules in one answer."""


def for_fire(context: Context, request: schedules.FireSchedule) -> schedules.FireFacts:
    """Return the times of the schedule if they are of this revision, and the item that has the id of its turn."""
    now, schedule = context.now, context.rows.row(SCHEDULES, request.name)
    if schedule is None or not schedules.is_due(schedule, now):
        return schedules.FireFacts(now, context.service, schedule)
    times = request.times
    if times is None or times.revision != schedule.revision:
        return schedules.FireFacts(now, context.service, schedule)
    definition = schedule.definition
    moment = schedules.chosen(definition.missed, times.pending, now)
    publish = None
    if moment is not None:
        publish = for_publish(context, schedules.publish_of(definition, moment, context.service))
    return schedules.FireFacts(now, context.service, schedule, times, publish)


def for_fire_now(context: Context, request: schedules.FireNow) -> schedules.FireFacts:
    """Return the facts for a publish at this very moment."""
    now, schedule = context.now, context.rows.row(SCHEDULES, request.name)
    publish = None
    if schedule is not None:
        publish = for_publish(
            context, schedules.publish_of(schedule.definition, now, context.service)
        )
    return schedules.FireFacts(now, context.service, schedule, publish=publish)


def for_list_schedules(
    context: Context, request: schedules.ListSchedules
) -> schedules.SchedulesFacts:
    """Return the next schedules, for principals that may see them."""
    if not request.by.admin:
        return schedules.SchedulesFacts(context.now, ())
    if request.name is not None:
        known = context.rows.row(SCHEDULES, request.name)
        return schedules.SchedulesFacts(context.now, () if known is None else (known,))
    most = SHOWN if request.max is None else min(request.max, SHOWN)
    found = context.rows.page(Schedules(), request.after, most + 1)
    return schedules.SchedulesFacts(context.now, tuple(found[:most]), len(found) > most)


def for_keep_schedule(
    context: Context, request: schedules.AddSchedule | schedules.ChangeSchedule
) -> schedules.KeepFacts:
    """Return the schedule under the name, and the fault of the requested one's times."""
    definition, now = request.definition, context.now
    known = context.rows.row(SCHEDULES, definition.name)
    unfit = schedules.fault_of(definition) or cron_times.unfit(definition.cron, definition.zone)
    if unfit or not request.by.admin:
        return schedules.KeepFacts(now, known, unfit)
    node = context.rows.node(definition.node)
    count = 0 if known else len(context.rows.page(Schedules(), None, MAX_SCHEDULES))
    return schedules.KeepFacts(
        now,
        known,
        has_node=node is not None,
        full=count >= MAX_SCHEDULES,
    )


def for_schedule(
    context: Context, request: schedules.RemoveSchedule | schedules.PauseSchedule
) -> schedules.KeepFacts:
    """Return the schedule of the name."""
    return schedules.KeepFacts(context.now, context.rows.row(SCHEDULES, request.name))


def for_declare(context: Context, _request: schedules.DeclareSchedules) -> schedules.DeclareFacts:
    """Return all schedules."""
    all_of_them = context.rows.page(Schedules(), None, 2 * MAX_SCHEDULES)
    return schedules.DeclareFacts(context.now, {one.name: one for one in all_of_them})
