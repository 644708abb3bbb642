"""Writes nodes, their subscriptions, and available addresses.

Counts are written as differences, so that several processes can share a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StaleError
from pubqueue.model.entities import account_of
from pubqueue.stores.sql.columns import packed_config, packed_terms, unpacked_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.rows import Write
    from pubqueue.model.entities import Jid, Node, NodeName, Subscription
    from pubqueue.stores.sql.session import SqlSession, Values

PEOPLE_AT_ONCE: Final = 1_000
"""Subscriptions, and affiliations, that are deleted at once with their node; more of them are swept."""


def add_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Add new nodes. They come first, because the other rows refer to them."""
    for write in writes:
        if write.before is None and (node := write.after) is not None:
            facts = node.name, packed_config(node.config), node.creator, node.created
            counts = node.items, node.subscriptions, node.spent, node.bytes
            session.must("add_node", 1, *facts, *counts)
            session.must("add_contents", 1, node.name)
            session.run("settle_node", node.name)


def change_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Write changed settings and counts."""
    counts, rates = [], []
    for write in writes:
        before, now = write.before, write.after
        if before is None or now is None:
            continue
        node = session.known_id(now.name)
        more = (
            now.items - before.items,
            now.bytes - before.bytes,
            now.subscriptions - before.subscriptions,
            now.done - before.done,
            now.done_bytes - before.done_bytes,
        )
        if (before.config, before.creator) != (now.config, now.creator):
            _check_config(session, node, before)
            session.must("configure", 1, packed_config(now.config), now.creator, node)
        if any(more):
            counts.append((*more, node))
        if before.spent != now.spent:
            rates.append((now.spent, node, before.spent))
    session.each("count_node", counts)
    session.each("spend_rate", rates)


def _check_config(session: SqlSession, node: int, before: Node) -> None:
    """Compare the settings with the expected ones; their text may be older than the current fields."""
    row = session.row("config", node)
    if row is None or unpacked_config(row[0]) != before.config:
        raise StaleError("config", before.name)


def drop_nodes(
    session: SqlSession, writes: Sequence[Write[Node]], announce: Sequence[NodeName]
) -> None:
    """Delete nodes. They come last. The rows that refer to them are left over; if they are many, they are swept in slices."""
    for write in writes:
        before = write.before
        if before is not None and write.after is None:
            node = session.known_id(before.name)
            _check_config(session, node, before)
            must_notify = before.name in announce
            session.must("keep_former", 1, node, int(must_notify))
            session.forget_nodes()
            session.must("drop_node", 1, node)
            if not must_notify:
                session.run("drop_subscriptions", node, PEOPLE_AT_ONCE)
                session.run("drop_affiliations", node, PEOPLE_AT_ONCE)
                session.run("forget_node", node)
            session.nodes.forget(before.name)


def write_subscriptions(session: SqlSession, writes: Sequence[Write[Subscription]]) -> None:
    """Write subscriptions: those that end first, because the same JID may subscribe again."""
    ended, changed, added, otherwise = [], [], [], []
    for write in writes:
        before, now = write.before, write.after
        same = before is not None and now is not None and _is_same(before, now)
        if before is not None and not same:
            ended.append((before.subid,))
        if before is not None and now is not None and same:
            counts = now.in_flight - before.in_flight, now.last_served
            facts = int(now.available), now.unanswered, before.subid
            changed.append((now.queue_requests, *counts, *facts))
            if (terms := _terms(now)) != _terms(before):
                otherwise.append((*terms, now.subid, before.subid))
        elif now is not None:
            state = now.in_flight, now.last_served, int(now.available), now.unanswered
            who = session.known_id(now.node), now.jid, account_of(now.jid), now.subid
            added.append((*who, now.queue_requests, *state, *_terms(now)))
    session.each("drop_subscription", ended)
    session.each("change_subscription", changed)
    session.each("change_terms", otherwise)
    session.each("add_subscription", added)


def _is_same(before: Subscription, now: Subscription) -> bool:
    """Return whether it is the same row: of several subscriptions of a JID the first may have ended."""
    return before.subid == now.subid or bool(before.several)


def _terms(one: Subscription) -> Values:
    """Return the columns of a subscription that seldom change."""
    ends = one.expire, one.remind, int(one.temporary)
    rest = packed_terms(one.several), one.lock_timeout, one.qos and one.qos.value
    return one.state.value, int(one.deliver), *ends, *rest


def write_resources(session: SqlSession, writes: Sequence[Write[Jid]]) -> None:
    """Write the available addresses. No row is guarded: cached presence may be outdated."""
    gone = [(write.before,) for write in writes if write.before is not None]
    come = [(write.after, account_of(write.after)) for write in writes if write.after is not None]
    session.many("drop_resource", gone)
    if come:
        session.many("add_resource", come)


def write_activity(session: SqlSession, active: Sequence[tuple[Jid, int]]) -> None:
    """Write when available addresses were last active."""
    session.many("note_activity", [(since, jid) for jid, since in active])


def write_able(session: SqlSession, able: Sequence[tuple[Jid, bool]]) -> None:
    """Write of available addresses whether their clients have `urn:xmpp:qos`."""
    session.many("note_able", [(int(one), jid) for jid, one in able])
