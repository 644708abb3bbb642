"""Writes nodes and what is around them: subscriptions, those who are here.

Counts are written as differences, so that several processes can share a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.store.ports import StaleError
from pubqueue.core.addresses import account_of
from pubqueue.stores.sql.columns import packed_config, packed_terms, unpacked_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.store.rows import Write
    from pubqueue.core.model import Jid, Node, NodeName, Subscription
    from pubqueue.stores.sql.session import SqlSession, Values

PEOPLE_AT_ONCE: Final = 1_000
"""Subscriptions, and affiliations, that go at once with their node; more of them are swept."""


def add_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Add nodes that were not there: first of all, for the rest hangs on them."""
    for write in writes:
        if write.before is None and (node := write.after) is not None:
            facts = node.name, packed_config(node.config), node.creator, node.created
            counts = node.items, node.subscriptions, node.spent, node.bytes
            session.must("add_node", 1, *facts, *counts)
            session.must("add_contents", 1, node.name)
            session.run("settle_node", node.name)


def change_nodes(session: SqlSession, writes: Sequence[Write[Node]]) -> None:
    """Write other settings and counts."""
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
    """Compare the settings with those that were known; their text may be older than the fields of today."""
    row = session.row("config", node)
    if row is None or unpacked_config(row[0]) != before.config:
        raise StaleError("config", before.name)


def drop_nodes(
    session: SqlSession, writes: Sequence[Write[Node]], announce: Sequence[NodeName]
) -> None:
    """Delete nodes: last of all. What hangs on them is nobody's; where it is much, it is swept in slices."""
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
    """Write subscriptions: those that end first, for the same JID may subscribe anew."""
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
    """Say whether it is the same row: of several subscriptions of a JID the first may have ended."""
    return before.subid == now.subid or bool(before.several)


def _terms(one: Subscription) -> Values:
    """Return what seldom changes of a subscription."""
    ends = one.expire, one.remind, int(one.temporary)
    return one.state.value, int(one.deliver), *ends, packed_terms(one.several)


def write_resources(session: SqlSession, writes: Sequence[Write[Jid]]) -> None:
    """Write who is here. No row is guarded: what is known of presence may be old."""
    gone = [(write.before,) for write in writes if write.before is not None]
    come = [(write.after, account_of(write.after)) for write in writes if write.after is not None]
    session.many("drop_resource", gone)
    if come:
        session.many("add_resource", come)


def write_heard(session: SqlSession, heard: Sequence[tuple[Jid, int]]) -> None:
    """Write of who is here when they have shown themselves."""
    session.many("hear_of", [(since, jid) for jid, since in heard])
