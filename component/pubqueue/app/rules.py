"""Which facts and which rule belong to each request: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pubqueue.app import facts, txn_facts, views
from pubqueue.app import reading as looks
from pubqueue.core import (
    commit,
    expire,
    manage,
    mine,
    publish,
    reading,
    recover,
    redrive,
    retrieve,
    settle,
    subscribe,
    touch,
    trim,
    txn,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.facts import Context
    from pubqueue.core.decision import Decision

Request = (
    publish.Publish
    | settle.Settle
    | subscribe.Subscribe
    | subscribe.SetOptions
    | subscribe.Unsubscribe
    | manage.Create
    | manage.Declare
    | manage.Describe
    | manage.Configure
    | manage.Delete
    | manage.Purge
    | manage.GetAffiliations
    | manage.SetAffiliations
    | manage.ListNodes
    | mine.ListMyAffiliations
    | mine.ListMySubscriptions
    | manage.ListItems
    | touch.Touch
    | redrive.Redrive
    | retrieve.Retrieve
    | reading.ReadEvents
    | reading.ReadItems
    | reading.ReadNodes
    | trim.Trim
    | txn.StagePublish
    | txn.AbortVersion
    | txn.AskMark
    | txn.ListTransactions
    | commit.CommitVersion
    | expire.Arrive
    | expire.Expire
    | expire.Leave
    | expire.Return
    | recover.Recover
)

R = TypeVar("R")
F = TypeVar("F")


def _rule(
    load: Callable[[Context, R], F], decide: Callable[[R, F], Decision]
) -> Callable[[Context, Any], Decision]:
    """Tie a rule to its facts; the types of the two must agree."""

    def judge(context: Context, request: R) -> Decision:
        return decide(request, load(context, request))

    return judge


# fmt: off
RULES: Final[dict[type, Callable[[Context, Any], Decision]]] = {
    publish.Publish:         _rule(facts.for_publish, publish.publish),
    settle.Settle:           _rule(facts.for_unlock_outcome, settle.settle),
    subscribe.Subscribe:     _rule(facts.for_subscription, subscribe.subscribe),
    subscribe.SetOptions:    _rule(facts.for_subscription, subscribe.set_options),
    subscribe.Unsubscribe:   _rule(facts.for_subscription, subscribe.unsubscribe),
    manage.Create:           _rule(facts.for_node, manage.create),
    manage.Declare:          _rule(facts.for_node, manage.declare),
    manage.Describe:         _rule(facts.for_node, manage.describe),
    manage.Configure:        _rule(facts.for_node, manage.configure_node),
    manage.Delete:           _rule(facts.for_node, manage.delete),
    manage.Purge:            _rule(facts.for_node, manage.purge),
    manage.GetAffiliations:  _rule(facts.for_node, manage.get_affiliations),
    manage.SetAffiliations:  _rule(facts.for_node, manage.set_affiliations),
    manage.ListNodes:        _rule(facts.for_nodes, manage.list_nodes),
    mine.ListMyAffiliations: _rule(facts.for_my_affiliations, mine.list_my_affiliations),
    mine.ListMySubscriptions: _rule(facts.for_my_subscriptions, mine.list_my_subscriptions),
    manage.ListItems:        _rule(facts.for_items, manage.list_items),
    touch.Touch:             _rule(facts.for_settle, touch.touch),
    redrive.Redrive:         _rule(views.for_redrive, redrive.redrive),
    retrieve.Retrieve:       _rule(views.for_retrieve, retrieve.retrieve),
    reading.ReadEvents:      _rule(looks.for_events, reading.read),
    reading.ReadItems:       _rule(looks.for_items, reading.read),
    reading.ReadNodes:       _rule(looks.for_read_nodes, reading.read),
    trim.Trim:               _rule(looks.for_trim, trim.trim),
    txn.StagePublish:        _rule(txn_facts.for_stage, txn.stage),
    txn.AbortVersion:        _rule(txn_facts.for_app, txn.abort),
    txn.AskMark:             _rule(txn_facts.for_app, txn.mark_of),
    txn.ListTransactions:    _rule(txn_facts.for_list, txn.list_transactions),
    commit.CommitVersion:    _rule(txn_facts.for_commit, commit.commit),
    expire.Arrive:           _rule(facts.for_arrive, expire.arrive),
    expire.Expire:           _rule(facts.for_expiry, expire.expire),
    expire.Leave:            _rule(facts.for_leave, expire.leave),
    expire.Return:           _rule(facts.for_return, expire.bounce),
    recover.Recover:         _rule(facts.for_recovery, recover.recover),
}
# fmt: on


def decide(context: Context, request: Request) -> Decision:
    """Load the request's facts and decide it."""
    return RULES[type(request)](context, request)
