"""Which companion, which rule and which bounds belong to each request: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from pubqueue.app.facts.nodes import approving, large_audience, listing, managing, trimming
from pubqueue.app.facts.queue import expiring, publishing, settling
from pubqueue.app.facts.reading import inspecting, retrieving, sampling
from pubqueue.app.facts.reading import reading as read_facts
from pubqueue.app.facts.schedules import scheduling
from pubqueue.app.facts.transactions import committing, moving
from pubqueue.core import validity
from pubqueue.core.decision import Decision
from pubqueue.core.nodes import account, declare, manage
from pubqueue.core.nodes import large_audience as crowds
from pubqueue.core.nodes import trimming as trims
from pubqueue.core.nodes.subscriptions import (
    pending,
    reachability,
    review,
    subscribe,
    subscribers,
)
from pubqueue.core.queue import (
    cancel,
    clock_recovery,
    expire,
    force_unlock,
    publication,
    publish,
    redrive,
    resend,
    settle,
    touch,
)
from pubqueue.core.reading import deaths, inspect, read, retrieve, samples, survey, trim
from pubqueue.core.schedules import admin, fire
from pubqueue.core.transactions import commit, staging
from pubqueue.core.transactions import moving as moves

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.facts.context import Context
    from pubqueue.core.decision import Refused

Request = (
    publication.Publish
    | settle.Settle
    | subscribe.Subscribe
    | subscribe.SetOptions
    | subscribe.GetDefaultOptions
    | subscribe.Unsubscribe
    | pending.Answer
    | pending.ReadPending
    | pending.SendPending
    | subscribers.GetSubscriptions
    | subscribers.SetSubscriptions
    | manage.Create
    | declare.Declare
    | manage.Describe
    | manage.Configure
    | manage.Delete
    | manage.Purge
    | manage.GetAffiliations
    | manage.SetAffiliations
    | manage.ListNodes
    | crowds.NextSubscribers
    | crowds.NotifyFormer
    | crowds.ListUnnotified
    | review.ReviewSubscribers
    | review.ResumeReviews
    | trims.TrimItems
    | trims.ResumeTrims
    | account.ListMyAffiliations
    | account.ListMySubscriptions
    | manage.ListItems
    | touch.Touch
    | redrive.Redrive
    | cancel.Cancel
    | cancel.Discard
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | survey.ReadSurvey
    | trim.Trim
    | samples.KeepSamples
    | samples.ReadSamples
    | inspect.AskPowers
    | inspect.ReadWorkers
    | inspect.Peek
    | deaths.ReadReasons
    | inspect.AskService
    | force_unlock.FreeLocks
    | force_unlock.Dismiss
    | force_unlock.FreeHeld
    | staging.StagePublish
    | staging.AbortVersion
    | staging.AskLastVersion
    | staging.ListTransactions
    | commit.CommitVersion
    | commit.LookAtWinners
    | moves.MoveWinners
    | moves.ResumeMoves
    | fire.FireSchedule
    | fire.FireNow
    | admin.ListSchedules
    | admin.AddSchedule
    | admin.ChangeSchedule
    | admin.RemoveSchedule
    | admin.PauseSchedule
    | admin.DeclareSchedules
    | expire.Arrive
    | expire.Expire
    | expire.ListOverdue
    | expire.Leave
    | expire.FreeLeft
    | expire.Bounce
    | clock_recovery.Recover
    | resend.Resend
    | reachability.ReachChanged
)

R = TypeVar("R")
F = TypeVar("F")


Rule = tuple["Callable[[Context, Any], Any]", "Callable[[Any, Any], Decision]"]


def _rule(
    facts: Callable[[Context, R], F],
    decide: Callable[[R, F], Decision],
    fault: Callable[[R], Refused | None] | None = None,
) -> Rule:
    """Tie a rule to its companion, and to what is wrong with a request whatever is stored; the types must agree."""
    if fault is None:
        return facts, decide

    def decide_valid(request: R, found: F) -> Decision:
        no = fault(request)
        return decide(request, found) if no is None else Decision(no)

    return facts, decide_valid


# fmt: off
RULES: Final[dict[type, Rule]] = {
    publication.Publish:             _rule(publishing.for_publish, publish.publish, validity.of_publish),
    settle.Settle:               _rule(settling.for_end, settle.settle, validity.of_settle),
    subscribe.Subscribe:         _rule(managing.for_subscription, subscribe.subscribe, validity.of_node),
    subscribe.SetOptions:        _rule(managing.for_subscription, subscribe.set_options, validity.of_node),
    subscribe.Unsubscribe:       _rule(managing.for_subscription, subscribe.unsubscribe, validity.of_node),
    subscribe.GetDefaultOptions: _rule(managing.for_defaults, subscribe.get_default_options, validity.of_node),
    pending.Answer:              _rule(approving.for_answer, pending.answer, validity.of_node),
    pending.ReadPending:         _rule(approving.for_pending, pending.read_pending, validity.of_node),
    pending.SendPending:         _rule(approving.for_send, pending.send_pending, validity.of_node),
    subscribers.GetSubscriptions: _rule(approving.for_get_subscriptions, subscribers.get_subscriptions, validity.of_node),
    subscribers.SetSubscriptions: _rule(approving.for_set_subscriptions, subscribers.set_subscriptions, validity.of_node),
    manage.Create:               _rule(managing.for_node, manage.create, validity.of_node),
    declare.Declare:             _rule(managing.for_node, declare.declare, validity.of_node),
    manage.Describe:             _rule(managing.for_node, manage.describe, validity.of_description),
    manage.Configure:            _rule(managing.for_node, manage.configure_node, validity.of_node),
    manage.Delete:               _rule(managing.for_node, manage.delete, validity.of_node),
    manage.Purge:                _rule(managing.for_node, manage.purge, validity.of_node),
    manage.GetAffiliations:      _rule(listing.for_get_affiliations, manage.get_affiliations, validity.of_node),
    manage.SetAffiliations:      _rule(managing.for_affiliations, manage.set_affiliations, validity.of_node),
    manage.ListNodes:            _rule(listing.for_nodes, manage.list_nodes),
    account.ListMyAffiliations:  _rule(listing.for_my_affiliations, account.list_my_affiliations, validity.of_node),
    account.ListMySubscriptions: _rule(listing.for_my_subscriptions, account.list_my_subscriptions, validity.of_node),
    manage.ListItems:            _rule(listing.for_items, manage.list_items),
    crowds.NextSubscribers:      _rule(large_audience.for_next_subscribers, crowds.next_subscribers),
    crowds.NotifyFormer:           _rule(large_audience.for_former, crowds.notify_former),
    crowds.ListUnnotified:           _rule(large_audience.for_unnotified, crowds.list_unnotified),
    review.ReviewSubscribers:    _rule(large_audience.for_review, review.review),
    review.ResumeReviews:        _rule(large_audience.for_resume, review.resume),
    trims.TrimItems:             _rule(trimming.for_trim, trims.trim),
    trims.ResumeTrims:           _rule(trimming.for_resume, trims.resume),
    touch.Touch:                 _rule(settling.for_settle, touch.touch, validity.of_touch),
    redrive.Redrive:             _rule(retrieving.for_redrive, redrive.redrive, validity.of_redrive),
    cancel.Cancel:               _rule(settling.for_settle, cancel.cancel, validity.of_cancel),
    cancel.Discard:              _rule(settling.for_discard, cancel.discard, validity.of_node),
    retrieve.Retrieve:           _rule(retrieving.for_retrieve, retrieve.retrieve, validity.of_node),
    read.ReadEvents:             _rule(read_facts.for_events, read.read, validity.of_node),
    read.ReadItems:              _rule(read_facts.for_items, read.read, validity.of_node),
    read.ReadNodes:              _rule(read_facts.for_read_nodes, read.read),
    survey.ReadSurvey:           _rule(read_facts.for_survey, survey.survey),
    trim.Trim:                   _rule(read_facts.for_trim, trim.trim),
    samples.KeepSamples:         _rule(sampling.for_keep, samples.keep_samples),
    samples.ReadSamples:         _rule(sampling.for_read, samples.read_samples),
    inspect.AskPowers:           _rule(inspecting.for_powers, inspect.ask_powers),
    inspect.ReadWorkers:         _rule(inspecting.for_workers, inspect.read_workers, validity.of_node),
    inspect.Peek:                _rule(inspecting.for_peek, inspect.peek, validity.of_node),
    deaths.ReadReasons:          _rule(inspecting.for_reasons, deaths.read_reasons, validity.of_node),
    inspect.AskService:          _rule(inspecting.for_service, inspect.ask_service),
    force_unlock.FreeLocks:              _rule(inspecting.for_free, force_unlock.free_locks, validity.of_free),
    force_unlock.Dismiss:                _rule(inspecting.for_free, force_unlock.dismiss, validity.of_node),
    force_unlock.FreeHeld:               _rule(inspecting.for_free_held, force_unlock.free_held),
    staging.StagePublish:        _rule(publishing.for_stage, staging.stage, validity.of_stage),
    staging.AbortVersion:        _rule(committing.for_abort, staging.abort, validity.of_abort),
    staging.AskLastVersion:      _rule(committing.for_app, staging.last_version, validity.of_app),
    staging.ListTransactions:    _rule(committing.for_list, staging.list_transactions, validity.of_records),
    commit.CommitVersion:        _rule(committing.for_commit, commit.commit, validity.of_commit),
    commit.LookAtWinners:        _rule(moving.for_look, moves.look),
    moves.MoveWinners:           _rule(moving.for_move, moves.move),
    moves.ResumeMoves:           _rule(moving.for_resume, moves.resume),
    fire.FireSchedule:           _rule(scheduling.for_fire, fire.fire),
    fire.FireNow:                _rule(scheduling.for_fire_now, fire.fire_now),
    admin.ListSchedules:          _rule(scheduling.for_list, admin.list_schedules),
    admin.AddSchedule:            _rule(scheduling.for_keep, admin.add_schedule),
    admin.ChangeSchedule:         _rule(scheduling.for_keep, admin.change_schedule),
    admin.RemoveSchedule:         _rule(scheduling.for_named, admin.remove_schedule),
    admin.PauseSchedule:          _rule(scheduling.for_named, admin.pause_schedule),
    admin.DeclareSchedules:       _rule(scheduling.for_declare, admin.declare_schedules),
    expire.Arrive:               _rule(expiring.for_arrive, expire.arrive),
    expire.Expire:               _rule(expiring.for_expiry, expire.expire),
    expire.ListOverdue:          _rule(expiring.for_list, expire.list_overdue),
    expire.Leave:                _rule(expiring.for_leave, expire.leave),
    expire.FreeLeft:             _rule(expiring.for_free_left, expire.free_left),
    expire.Bounce:               _rule(expiring.for_bounce, expire.bounce),
    clock_recovery.Recover:             _rule(expiring.for_recovery, clock_recovery.recover),
    resend.Resend:               _rule(expiring.for_resend, resend.resend),
    reachability.ReachChanged:   _rule(expiring.for_reach, reachability.reach_changed),
}
# fmt: on

AHEAD_OF: Final[dict[type, Callable[[Context, Any], object]]] = {
    request: facts for request, (facts, _) in RULES.items()
} | {publication.Publish: publishing.ahead}
"""Returns the needs of a request before its turn: its companion, or a quicker function."""

Read = (
    manage.Describe
    | subscribe.GetDefaultOptions
    | pending.ReadPending
    | subscribers.GetSubscriptions
    | manage.GetAffiliations
    | manage.ListNodes
    | manage.ListItems
    | account.ListMyAffiliations
    | account.ListMySubscriptions
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | survey.ReadSurvey
    | samples.ReadSamples
    | inspect.AskPowers
    | inspect.ReadWorkers
    | inspect.Peek
    | deaths.ReadReasons
    | inspect.AskService
    | staging.ListTransactions
    | admin.ListSchedules
    | crowds.NextSubscribers
    | crowds.ListUnnotified
)
"""Requests that change nothing, whatever the answer: they are served beside the batches, and delay none."""

READS: Final = frozenset(get_args(Read))
