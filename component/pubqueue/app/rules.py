"""The companion, the rule and the bounds of each request: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args

from pubqueue.app.facts import deliveries, secrets
from pubqueue.app.facts import forwarding as forward_facts
from pubqueue.app.facts import qos as qos_facts
from pubqueue.app.facts import registering as registration_facts
from pubqueue.app.facts.nodes import approving, large_audience, listing, managing, trimming
from pubqueue.app.facts.nodes import unused as unused_queues
from pubqueue.app.facts.queue import expiring, feeding, publishing, seeking, settling, taking
from pubqueue.app.facts.reading import connections as connection_facts
from pubqueue.app.facts.reading import following, inspecting, retrieving, sampling
from pubqueue.app.facts.reading import held as held_facts
from pubqueue.app.facts.reading import reading as read_facts
from pubqueue.app.facts.schedules import scheduling
from pubqueue.app.facts.transactions import committing, moving
from pubqueue.app.facts.transactions import staging as staged_facts
from pubqueue.core import validity
from pubqueue.core.deliveries import again, answers, features, give_up
from pubqueue.core.forwarding import forward
from pubqueue.core.limits.request_sizes import too_many
from pubqueue.core.nodes import account, declare, discovery, manage
from pubqueue.core.nodes import large_audience as crowds
from pubqueue.core.nodes import trimming as trims
from pubqueue.core.nodes.subscriptions import (
    pending,
    reachability,
    review,
    subscribe,
    subscribers,
    take,
    unused,
)
from pubqueue.core.presence import arrive, bounce, leave, silence
from pubqueue.core.publishing import in_slices, keeping_secrets
from pubqueue.core.pushing import pushed, registering
from pubqueue.core.qos import deliver, ending, keep
from pubqueue.core.qos import reading as messages
from pubqueue.core.queue import (
    cancel,
    clock_recovery,
    expire,
    force_unlock,
    publication,
    redrive,
    resend,
    settle,
    touch,
)
from pubqueue.core.queue.retention import kept, seek
from pubqueue.core.queue.settling import each, held, remembering
from pubqueue.core.reading import (
    connections,
    deaths,
    inspect,
    newer,
    read,
    retrieve,
    samples,
    survey,
    trim,
    used_key,
)
from pubqueue.core.schedules import admin, fire
from pubqueue.core.together import Together
from pubqueue.core.transactions import commit, staging
from pubqueue.core.transactions import moving as moves

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.facts.context import Context
    from pubqueue.core.decision import Decision, Refused

Request = (
    publication.Publish
    | settle.Settle
    | each.SettleEach
    | Together
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
    | discovery.Describe
    | manage.Configure
    | manage.Delete
    | manage.Purge
    | manage.GetAffiliations
    | manage.SetAffiliations
    | discovery.ListNodes
    | crowds.NextSubscribers
    | crowds.NotifyFormer
    | crowds.ListUnnotified
    | review.ReviewSubscribers
    | review.ResumeReviews
    | trims.TrimItems
    | trims.ResumeTrims
    | unused.DeleteUnused
    | account.ListMyAffiliations
    | account.ListMySubscriptions
    | discovery.ListItems
    | take.Take
    | touch.Touch
    | redrive.Redrive
    | seek.Seek
    | seek.SeekItems
    | seek.ResumeSeeks
    | kept.DropDone
    | cancel.Cancel
    | cancel.Discard
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | newer.ReadNewer
    | newer.AskNewest
    | used_key.ReadUsedKey
    | held.ReadHeld
    | survey.ReadSurvey
    | trim.Trim
    | samples.KeepSamples
    | samples.ReadSamples
    | inspect.AskPowers
    | connections.ReadConnections
    | inspect.ReadWorkers
    | inspect.Peek
    | deaths.ReadReasons
    | inspect.AskService
    | force_unlock.FreeLocks
    | connections.EndConnection
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
    | in_slices.LookAtFed
    | in_slices.MarkPublish
    | in_slices.FeedSlice
    | in_slices.ResumeFeeding
    | fire.FireSchedule
    | fire.FireNow
    | admin.ListSchedules
    | admin.AddSchedule
    | admin.ChangeSchedule
    | admin.RemoveSchedule
    | admin.PauseSchedule
    | admin.DeclareSchedules
    | arrive.Arrive
    | expire.Expire
    | expire.ListOverdue
    | leave.Leave
    | leave.FreeLeft
    | keeping_secrets.KeepSecret
    | registering.Register
    | registering.Unregister
    | registering.Enable
    | registering.Claim
    | registering.NotePush
    | registering.ListRegistrations
    | pushed.ListPushed
    | silence.AnsweredElsewhere
    | forward.Forward
    | forward.EndForward
    | keep.KeepMessage
    | deliver.DeliverMessage
    | ending.ForgetMessages
    | ending.DropMessages
    | messages.ReadMessage
    | messages.ListMessages
    | bounce.Bounce
    | clock_recovery.Recover
    | resend.Resend
    | reachability.ReachChanged
    | again.AskUnanswered
    | answers.NoteDeliveryAnswer
    | give_up.GiveUpUnanswered
    | features.NoteFeatures
)

R = TypeVar("R")
F = TypeVar("F")


class Rule(NamedTuple):
    """The row of a request: its companion, its rule, and the check that needs no facts and comes before both."""

    facts: Callable[[Context, Any], Any]
    decide: Callable[[Any, Any], Decision]
    fault: Callable[[Any], Refused | None] | None


def _rule(
    facts: Callable[[Context, R], F],
    decide: Callable[[R, F], Decision],
    fault: Callable[[R], Refused | None] | None = None,
) -> Rule:
    """Return the row of a request. The types must agree."""
    return Rule(facts, decide, fault)


# fmt: off
RULES: Final[dict[type, Rule]] = {
    publication.Publish:             _rule(publishing.for_publish, in_slices.publish, validity.of_publish),
    settle.Settle:               _rule(settling.for_end, remembering.settle_once, validity.of_settle),
    each.SettleEach:             _rule(settling.for_each, each.settle_each, validity.of_each),
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
    discovery.Describe:             _rule(managing.for_node, discovery.describe, validity.of_description),
    manage.Configure:            _rule(managing.for_node, manage.configure_node, validity.of_node),
    manage.Delete:               _rule(managing.for_node, manage.delete, validity.of_node),
    manage.Purge:                _rule(managing.for_node, manage.purge, validity.of_node),
    manage.GetAffiliations:      _rule(listing.for_get_affiliations, manage.get_affiliations, validity.of_node),
    manage.SetAffiliations:      _rule(managing.for_affiliations, manage.set_affiliations, validity.of_node),
    discovery.ListNodes:            _rule(listing.for_nodes, discovery.list_nodes),
    account.ListMyAffiliations:  _rule(listing.for_my_affiliations, account.list_my_affiliations, validity.of_node),
    account.ListMySubscriptions: _rule(listing.for_my_subscriptions, account.list_my_subscriptions, validity.of_node),
    discovery.ListItems:            _rule(listing.for_items, discovery.list_items),
    crowds.NextSubscribers:      _rule(large_audience.for_next_subscribers, crowds.next_subscribers),
    crowds.NotifyFormer:           _rule(large_audience.for_former, crowds.notify_former),
    crowds.ListUnnotified:           _rule(large_audience.for_unnotified, crowds.list_unnotified),
    review.ReviewSubscribers:    _rule(large_audience.for_review, review.review),
    review.ResumeReviews:        _rule(large_audience.for_resume, review.resume),
    trims.TrimItems:             _rule(trimming.for_trim, trims.trim),
    trims.ResumeTrims:           _rule(trimming.for_resume, trims.resume),
    unused.DeleteUnused:         _rule(unused_queues.for_unused, unused.delete_unused),
    take.Take:                   _rule(taking.for_take, take.take, validity.of_take),
    touch.Touch:                 _rule(settling.for_settle, touch.touch, validity.of_touch),
    redrive.Redrive:             _rule(retrieving.for_redrive, redrive.redrive, validity.of_redrive),
    seek.Seek:                   _rule(seeking.for_seek, seek.seek, validity.of_node),
    seek.SeekItems:              _rule(seeking.for_seek_items, seek.seek_items),
    seek.ResumeSeeks:            _rule(seeking.for_resume, seek.resume),
    kept.DropDone:               _rule(seeking.for_drop, kept.drop_done),
    cancel.Cancel:               _rule(settling.for_settle, cancel.cancel, validity.of_cancel),
    cancel.Discard:              _rule(settling.for_discard, cancel.discard, validity.of_node),
    retrieve.Retrieve:           _rule(retrieving.for_retrieve, retrieve.retrieve, validity.of_node),
    read.ReadEvents:             _rule(read_facts.for_events, read.read, validity.of_node),
    read.ReadItems:              _rule(read_facts.for_items, read.read, validity.of_node),
    read.ReadNodes:              _rule(read_facts.for_read_nodes, read.read),
    newer.ReadNewer:             _rule(following.for_newer, newer.read_newer, validity.of_node),
    used_key.ReadUsedKey:        _rule(publishing.for_used_key, used_key.read_used_key, validity.of_node),
    held.ReadHeld:               _rule(held_facts.for_held, held.read_held, validity.of_node),
    newer.AskNewest:             _rule(following.for_newest, newer.ask_newest),
    survey.ReadSurvey:           _rule(read_facts.for_survey, survey.survey),
    trim.Trim:                   _rule(read_facts.for_trim, trim.trim),
    samples.KeepSamples:         _rule(sampling.for_keep, samples.keep_samples),
    samples.ReadSamples:         _rule(sampling.for_read, samples.read_samples),
    inspect.AskPowers:           _rule(inspecting.for_powers, inspect.ask_powers),
    inspect.ReadWorkers:         _rule(inspecting.for_workers, inspect.read_workers, validity.of_node),
    connections.ReadConnections: _rule(connection_facts.for_connections, connections.read_connections),
    connections.EndConnection:   _rule(connection_facts.for_end, connections.end_connection),
    inspect.Peek:                _rule(inspecting.for_peek, inspect.peek, validity.of_node),
    deaths.ReadReasons:          _rule(inspecting.for_reasons, deaths.read_reasons, validity.of_node),
    inspect.AskService:          _rule(inspecting.for_service, inspect.ask_service),
    force_unlock.FreeLocks:              _rule(inspecting.for_free, force_unlock.free_locks, validity.of_free),
    force_unlock.Dismiss:                _rule(inspecting.for_free, force_unlock.dismiss, validity.of_node),
    force_unlock.FreeHeld:               _rule(inspecting.for_free_held, force_unlock.free_held),
    staging.StagePublish:        _rule(staged_facts.for_stage, staging.stage, validity.of_stage),
    staging.AbortVersion:        _rule(committing.for_abort, staging.abort, validity.of_abort),
    staging.AskLastVersion:      _rule(committing.for_app, staging.last_version, validity.of_app),
    staging.ListTransactions:    _rule(committing.for_list, staging.list_transactions, validity.of_records),
    commit.CommitVersion:        _rule(committing.for_commit, commit.commit, validity.of_commit),
    commit.LookAtWinners:        _rule(moving.for_look, moves.look),
    moves.MoveWinners:           _rule(moving.for_move, moves.move),
    moves.ResumeMoves:           _rule(moving.for_resume, moves.resume),
    in_slices.LookAtFed:         _rule(feeding.for_look, in_slices.look),
    in_slices.MarkPublish:       _rule(feeding.for_mark, in_slices.mark),
    in_slices.FeedSlice:         _rule(feeding.for_slice, in_slices.feed),
    in_slices.ResumeFeeding:     _rule(feeding.for_resume, in_slices.resume),
    fire.FireSchedule:           _rule(scheduling.for_fire, fire.fire),
    fire.FireNow:                _rule(scheduling.for_fire_now, fire.fire_now),
    admin.ListSchedules:          _rule(scheduling.for_list, admin.list_schedules),
    admin.AddSchedule:            _rule(scheduling.for_keep, admin.add_schedule),
    admin.ChangeSchedule:         _rule(scheduling.for_keep, admin.change_schedule),
    admin.RemoveSchedule:         _rule(scheduling.for_named, admin.remove_schedule),
    admin.PauseSchedule:          _rule(scheduling.for_named, admin.pause_schedule),
    admin.DeclareSchedules:       _rule(scheduling.for_declare, admin.declare_schedules),
    arrive.Arrive:               _rule(expiring.for_arrive, arrive.arrive),
    keeping_secrets.KeepSecret:  _rule(secrets.for_secret, keeping_secrets.keep_secret),
    registering.Register:        _rule(registration_facts.for_register, registering.register, validity.of_node),
    registering.Unregister:      _rule(registration_facts.for_named, registering.unregister, validity.of_node),
    registering.Enable:          _rule(registration_facts.for_named, registering.enable, validity.of_node),
    registering.Claim:           _rule(registration_facts.for_claim, registering.claim),
    registering.NotePush:        _rule(registration_facts.for_named, registering.note_push),
    registering.ListRegistrations: _rule(registration_facts.for_list, registering.list_registrations),
    pushed.ListPushed:           _rule(listing.for_pushed, pushed.list_pushed),
    expire.Expire:               _rule(expiring.for_expiry, expire.expire),
    expire.ListOverdue:          _rule(expiring.for_list, expire.list_overdue),
    leave.Leave:                _rule(expiring.for_leave, leave.leave),
    leave.FreeLeft:             _rule(expiring.for_free_left, leave.free_left),
    silence.AnsweredElsewhere:  _rule(expiring.for_answered, silence.answered_elsewhere),
    forward.Forward:         _rule(forward_facts.for_forward, forward.forward),
    forward.EndForward:      _rule(forward_facts.for_end, forward.end_forward),
    keep.KeepMessage:           _rule(qos_facts.for_keep, keep.keep),
    deliver.DeliverMessage:     _rule(qos_facts.for_deliver, deliver.deliver),
    ending.ForgetMessages:      _rule(qos_facts.for_forget, ending.forget_messages),
    ending.DropMessages:        _rule(qos_facts.for_drop, ending.drop_messages),
    messages.ReadMessage:       _rule(qos_facts.for_read, messages.read_message),
    messages.ListMessages:      _rule(qos_facts.for_list, messages.list_messages),
    bounce.Bounce:               _rule(expiring.for_bounce, bounce.bounce),
    clock_recovery.Recover:             _rule(expiring.for_recovery, clock_recovery.recover),
    resend.Resend:               _rule(expiring.for_resend, resend.resend),
    reachability.ReachChanged:   _rule(expiring.for_reach, reachability.reach_changed),
    again.AskUnanswered:         _rule(deliveries.for_unanswered, again.ask_unanswered),
    answers.NoteDeliveryAnswer:  _rule(deliveries.for_delivery_answer, answers.note_answer),
    give_up.GiveUpUnanswered:    _rule(deliveries.for_giving_up, give_up.give_up),
    features.NoteFeatures:       _rule(deliveries.for_features, features.note_features),
}
# fmt: on
"""All requests but `Together`, whose parts each have a row."""


def fault_of(request: Request) -> Refused | None:
    """Refuse what no stored row can make right: too many names in one request, or a value out of its bounds."""
    if (no := too_many(request)) is not None or type(request) is Together:
        return no
    fault = RULES[type(request)].fault
    return None if fault is None else fault(request)


PARTS_AHEAD: Final = 8
"""Parts of a request whose needs are collected before its turn; those of the others are collected in its turn."""


def _ahead_of_parts(context: Context, request: Together) -> None:
    for part in request.parts[:PARTS_AHEAD]:
        if fault_of(part) is None:
            AHEAD_OF[type(part)](context, part)


AHEAD_OF: Final[dict[type, Callable[[Context, Any], object]]] = {
    request: rule.facts for request, rule in RULES.items()
} | {publication.Publish: publishing.ahead, Together: _ahead_of_parts}
"""By request, the function that collects its needs before its turn: its companion, or a quicker function."""

Read = (
    discovery.Describe
    | subscribe.GetDefaultOptions
    | pending.ReadPending
    | subscribers.GetSubscriptions
    | manage.GetAffiliations
    | discovery.ListNodes
    | discovery.ListItems
    | account.ListMyAffiliations
    | account.ListMySubscriptions
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | newer.ReadNewer
    | newer.AskNewest
    | used_key.ReadUsedKey
    | held.ReadHeld
    | survey.ReadSurvey
    | samples.ReadSamples
    | inspect.AskPowers
    | connections.ReadConnections
    | inspect.ReadWorkers
    | inspect.Peek
    | deaths.ReadReasons
    | inspect.AskService
    | staging.ListTransactions
    | admin.ListSchedules
    | registering.ListRegistrations
    | pushed.ListPushed
    | again.AskUnanswered
    | crowds.NextSubscribers
    | crowds.ListUnnotified
    | messages.ReadMessage
    | messages.ListMessages
)
"""Requests that never change anything: they are answered outside the batches, and delay none."""

READS: Final = frozenset(get_args(Read))
