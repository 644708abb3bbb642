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
from pubqueue.core.limits.request_sizes import too_many
from pubqueue.rules import (
    audience,
    commit,
    dead_letters,
    declare,
    discovery,
    expire,
    forward,
    inspect,
    messages,
    nodes,
    once,
    presence,
    publication,
    publish,
    read,
    registrations,
    retrieve,
    schedules,
    seek,
    settle,
    settle_each,
    staging,
    subscribe,
    subscribers,
    survey,
    take,
    unlock,
    validity,
)
from pubqueue.rules import audience as crowds
from pubqueue.rules import deliveries as give_up
from pubqueue.rules import moving as moves
from pubqueue.rules import trimming as trims
from pubqueue.rules.deliveries import (
    AskUnanswered,
    NoteDeliveryAnswer,
    NoteFeatures,
    ask_unanswered,
    note_answer,
    note_features,
)
from pubqueue.rules.together import Together

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.facts.context import Context
    from pubqueue.model.decision import Decision, Refused

Request = (
    publication.Publish
    | settle.Settle
    | settle_each.SettleEach
    | Together
    | subscribe.Subscribe
    | subscribe.SetOptions
    | subscribe.GetDefaultOptions
    | subscribe.Unsubscribe
    | subscribers.Answer
    | subscribers.ReadPending
    | subscribers.SendPending
    | subscribers.GetSubscriptions
    | subscribers.SetSubscriptions
    | nodes.Create
    | declare.Declare
    | discovery.Describe
    | nodes.Configure
    | nodes.Delete
    | nodes.Purge
    | nodes.GetAffiliations
    | nodes.SetAffiliations
    | discovery.ListNodes
    | crowds.NextSubscribers
    | crowds.NotifyFormer
    | crowds.ListUnnotified
    | audience.ReviewSubscribers
    | audience.ResumeReviews
    | trims.TrimItems
    | trims.ResumeTrims
    | declare.DeleteUnused
    | discovery.ListMyAffiliations
    | discovery.ListMySubscriptions
    | discovery.ListItems
    | take.Take
    | unlock.Touch
    | dead_letters.Redrive
    | seek.Seek
    | seek.SeekItems
    | seek.ResumeSeeks
    | seek.DropDone
    | dead_letters.Cancel
    | dead_letters.Discard
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | retrieve.ReadNewer
    | retrieve.AskNewest
    | once.ReadUsedKey
    | settle.ReadHeld
    | survey.ReadSurvey
    | read.Trim
    | survey.KeepSamples
    | survey.ReadSamples
    | inspect.AskPowers
    | inspect.ReadConnections
    | inspect.ReadWorkers
    | inspect.Peek
    | dead_letters.ReadReasons
    | inspect.AskService
    | unlock.FreeLocks
    | inspect.EndConnection
    | unlock.Dismiss
    | unlock.FreeHeld
    | staging.StagePublish
    | staging.AbortVersion
    | staging.AskLastVersion
    | staging.ListTransactions
    | commit.CommitVersion
    | commit.LookAtWinners
    | moves.MoveWinners
    | moves.ResumeMoves
    | publish.LookAtFed
    | publish.MarkPublish
    | publish.FeedSlice
    | publish.ResumeFeeding
    | schedules.FireSchedule
    | schedules.FireNow
    | schedules.ListSchedules
    | schedules.AddSchedule
    | schedules.ChangeSchedule
    | schedules.RemoveSchedule
    | schedules.PauseSchedule
    | schedules.DeclareSchedules
    | presence.Arrive
    | expire.Expire
    | expire.ListOverdue
    | presence.Leave
    | presence.FreeLeft
    | once.KeepSecret
    | registrations.Register
    | registrations.Unregister
    | registrations.Enable
    | registrations.Claim
    | registrations.NotePush
    | registrations.ListRegistrations
    | registrations.ListPushed
    | presence.AnsweredElsewhere
    | forward.Forward
    | forward.EndForward
    | messages.KeepMessage
    | messages.DeliverMessage
    | messages.ForgetMessages
    | messages.DropMessages
    | messages.ReadMessage
    | messages.ListMessages
    | presence.Bounce
    | unlock.Recover
    | unlock.Resend
    | presence.ReachChanged
    | AskUnanswered
    | NoteDeliveryAnswer
    | give_up.GiveUpUnanswered
    | NoteFeatures
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
    publication.Publish:             _rule(publishing.for_publish, publish.publish, validity.of_publish),
    settle.Settle:               _rule(settling.for_end, settle_each.settle_once, validity.of_settle),
    settle_each.SettleEach:             _rule(settling.for_each, settle_each.settle_each, validity.of_each),
    subscribe.Subscribe:         _rule(managing.for_subscription, subscribe.subscribe, validity.of_node),
    subscribe.SetOptions:        _rule(managing.for_subscription, subscribe.set_options, validity.of_node),
    subscribe.Unsubscribe:       _rule(managing.for_subscription, subscribe.unsubscribe, validity.of_node),
    subscribe.GetDefaultOptions: _rule(managing.for_defaults, subscribe.get_default_options, validity.of_node),
    subscribers.Answer:              _rule(approving.for_answer, subscribers.answer, validity.of_node),
    subscribers.ReadPending:         _rule(approving.for_pending, subscribers.read_pending, validity.of_node),
    subscribers.SendPending:         _rule(approving.for_send, subscribers.send_pending, validity.of_node),
    subscribers.GetSubscriptions: _rule(approving.for_get_subscriptions, subscribers.get_subscriptions, validity.of_node),
    subscribers.SetSubscriptions: _rule(approving.for_set_subscriptions, subscribers.set_subscriptions, validity.of_node),
    nodes.Create:               _rule(managing.for_node, nodes.create, validity.of_node),
    declare.Declare:             _rule(managing.for_node, declare.declare, validity.of_node),
    discovery.Describe:             _rule(managing.for_node, discovery.describe, validity.of_description),
    nodes.Configure:            _rule(managing.for_node, nodes.configure_node, validity.of_node),
    nodes.Delete:               _rule(managing.for_node, nodes.delete, validity.of_node),
    nodes.Purge:                _rule(managing.for_node, nodes.purge, validity.of_node),
    nodes.GetAffiliations:      _rule(listing.for_get_affiliations, nodes.get_affiliations, validity.of_node),
    nodes.SetAffiliations:      _rule(managing.for_affiliations, nodes.set_affiliations, validity.of_node),
    discovery.ListNodes:            _rule(listing.for_nodes, discovery.list_nodes),
    discovery.ListMyAffiliations:  _rule(listing.for_my_affiliations, discovery.list_my_affiliations, validity.of_node),
    discovery.ListMySubscriptions: _rule(listing.for_my_subscriptions, discovery.list_my_subscriptions, validity.of_node),
    discovery.ListItems:            _rule(listing.for_items, discovery.list_items),
    crowds.NextSubscribers:      _rule(large_audience.for_next_subscribers, crowds.next_subscribers),
    crowds.NotifyFormer:           _rule(large_audience.for_former, crowds.notify_former),
    crowds.ListUnnotified:           _rule(large_audience.for_unnotified, crowds.list_unnotified),
    audience.ReviewSubscribers:    _rule(large_audience.for_review, audience.review),
    audience.ResumeReviews:        _rule(large_audience.for_resume, audience.resume),
    trims.TrimItems:             _rule(trimming.for_trim, trims.trim),
    trims.ResumeTrims:           _rule(trimming.for_resume, trims.resume),
    declare.DeleteUnused:         _rule(unused_queues.for_unused, declare.delete_unused),
    take.Take:                   _rule(taking.for_take, take.take, validity.of_take),
    unlock.Touch:                 _rule(settling.for_settle, unlock.touch, validity.of_touch),
    dead_letters.Redrive:             _rule(retrieving.for_redrive, dead_letters.redrive, validity.of_redrive),
    seek.Seek:                   _rule(seeking.for_seek, seek.seek, validity.of_node),
    seek.SeekItems:              _rule(seeking.for_seek_items, seek.seek_items),
    seek.ResumeSeeks:            _rule(seeking.for_resume, seek.resume),
    seek.DropDone:               _rule(seeking.for_drop, seek.drop_done),
    dead_letters.Cancel:               _rule(settling.for_settle, dead_letters.cancel, validity.of_cancel),
    dead_letters.Discard:              _rule(settling.for_discard, dead_letters.discard, validity.of_node),
    retrieve.Retrieve:           _rule(retrieving.for_retrieve, retrieve.retrieve, validity.of_node),
    read.ReadEvents:             _rule(read_facts.for_events, read.read, validity.of_node),
    read.ReadItems:              _rule(read_facts.for_items, read.read, validity.of_node),
    read.ReadNodes:              _rule(read_facts.for_read_nodes, read.read),
    retrieve.ReadNewer:             _rule(following.for_newer, retrieve.read_newer, validity.of_node),
    once.ReadUsedKey:        _rule(publishing.for_used_key, once.read_used_key, validity.of_node),
    settle.ReadHeld:               _rule(held_facts.for_held, settle.read_held, validity.of_node),
    retrieve.AskNewest:             _rule(following.for_newest, retrieve.ask_newest),
    survey.ReadSurvey:           _rule(read_facts.for_survey, survey.survey),
    read.Trim:                   _rule(read_facts.for_trim, read.trim),
    survey.KeepSamples:         _rule(sampling.for_keep, survey.keep_samples),
    survey.ReadSamples:         _rule(sampling.for_read, survey.read_samples),
    inspect.AskPowers:           _rule(inspecting.for_powers, inspect.ask_powers),
    inspect.ReadWorkers:         _rule(inspecting.for_workers, inspect.read_workers, validity.of_node),
    inspect.ReadConnections: _rule(connection_facts.for_connections, inspect.read_connections),
    inspect.EndConnection:   _rule(connection_facts.for_end, inspect.end_connection),
    inspect.Peek:                _rule(inspecting.for_peek, inspect.peek, validity.of_node),
    dead_letters.ReadReasons:          _rule(inspecting.for_reasons, dead_letters.read_reasons, validity.of_node),
    inspect.AskService:          _rule(inspecting.for_service, inspect.ask_service),
    unlock.FreeLocks:              _rule(inspecting.for_free, unlock.free_locks, validity.of_free),
    unlock.Dismiss:                _rule(inspecting.for_free, unlock.dismiss, validity.of_node),
    unlock.FreeHeld:               _rule(inspecting.for_free_held, unlock.free_held),
    staging.StagePublish:        _rule(staged_facts.for_stage, staging.stage, validity.of_stage),
    staging.AbortVersion:        _rule(committing.for_abort, staging.abort, validity.of_abort),
    staging.AskLastVersion:      _rule(committing.for_app, staging.last_version, validity.of_app),
    staging.ListTransactions:    _rule(committing.for_list, staging.list_transactions, validity.of_records),
    commit.CommitVersion:        _rule(committing.for_commit, commit.commit, validity.of_commit),
    commit.LookAtWinners:        _rule(moving.for_look, moves.look),
    moves.MoveWinners:           _rule(moving.for_move, moves.move),
    moves.ResumeMoves:           _rule(moving.for_resume, moves.resume),
    publish.LookAtFed:         _rule(feeding.for_look, publish.look),
    publish.MarkPublish:       _rule(feeding.for_mark, publish.mark),
    publish.FeedSlice:         _rule(feeding.for_slice, publish.feed),
    publish.ResumeFeeding:     _rule(feeding.for_resume, publish.resume),
    schedules.FireSchedule:           _rule(scheduling.for_fire, schedules.fire),
    schedules.FireNow:                _rule(scheduling.for_fire_now, schedules.fire_now),
    schedules.ListSchedules:          _rule(scheduling.for_list, schedules.list_schedules),
    schedules.AddSchedule:            _rule(scheduling.for_keep, schedules.add_schedule),
    schedules.ChangeSchedule:         _rule(scheduling.for_keep, schedules.change_schedule),
    schedules.RemoveSchedule:         _rule(scheduling.for_named, schedules.remove_schedule),
    schedules.PauseSchedule:          _rule(scheduling.for_named, schedules.pause_schedule),
    schedules.DeclareSchedules:       _rule(scheduling.for_declare, schedules.declare_schedules),
    presence.Arrive:               _rule(expiring.for_arrive, presence.arrive),
    once.KeepSecret:  _rule(secrets.for_secret, once.keep_secret),
    registrations.Register:        _rule(registration_facts.for_register, registrations.register, validity.of_node),
    registrations.Unregister:      _rule(registration_facts.for_named, registrations.unregister, validity.of_node),
    registrations.Enable:          _rule(registration_facts.for_named, registrations.enable, validity.of_node),
    registrations.Claim:           _rule(registration_facts.for_claim, registrations.claim),
    registrations.NotePush:        _rule(registration_facts.for_named, registrations.note_push),
    registrations.ListRegistrations: _rule(registration_facts.for_list, registrations.list_registrations),
    registrations.ListPushed:           _rule(listing.for_pushed, registrations.list_pushed),
    expire.Expire:               _rule(expiring.for_expiry, expire.expire),
    expire.ListOverdue:          _rule(expiring.for_list, expire.list_overdue),
    presence.Leave:                _rule(expiring.for_leave, presence.leave),
    presence.FreeLeft:             _rule(expiring.for_free_left, presence.free_left),
    presence.AnsweredElsewhere:  _rule(expiring.for_answered, presence.answered_elsewhere),
    forward.Forward:         _rule(forward_facts.for_forward, forward.forward),
    forward.EndForward:      _rule(forward_facts.for_end, forward.end_forward),
    messages.KeepMessage:           _rule(qos_facts.for_keep, messages.keep),
    messages.DeliverMessage:     _rule(qos_facts.for_deliver, messages.deliver),
    messages.ForgetMessages:      _rule(qos_facts.for_forget, messages.forget_messages),
    messages.DropMessages:        _rule(qos_facts.for_drop, messages.drop_messages),
    messages.ReadMessage:       _rule(qos_facts.for_read, messages.read_message),
    messages.ListMessages:      _rule(qos_facts.for_list, messages.list_messages),
    presence.Bounce:               _rule(expiring.for_bounce, presence.bounce),
    unlock.Recover:             _rule(expiring.for_recovery, unlock.recover),
    unlock.Resend:               _rule(expiring.for_resend, unlock.resend),
    presence.ReachChanged:   _rule(expiring.for_reach, presence.reach_changed),
    AskUnanswered:         _rule(deliveries.for_unanswered, ask_unanswered),
    NoteDeliveryAnswer:  _rule(deliveries.for_delivery_answer, note_answer),
    give_up.GiveUpUnanswered:    _rule(deliveries.for_giving_up, give_up.give_up),
    NoteFeatures:       _rule(deliveries.for_features, note_features),
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
    | subscribers.ReadPending
    | subscribers.GetSubscriptions
    | nodes.GetAffiliations
    | discovery.ListNodes
    | discovery.ListItems
    | discovery.ListMyAffiliations
    | discovery.ListMySubscriptions
    | retrieve.Retrieve
    | read.ReadEvents
    | read.ReadItems
    | read.ReadNodes
    | retrieve.ReadNewer
    | retrieve.AskNewest
    | once.ReadUsedKey
    | settle.ReadHeld
    | survey.ReadSurvey
    | survey.ReadSamples
    | inspect.AskPowers
    | inspect.ReadConnections
    | inspect.ReadWorkers
    | inspect.Peek
    | dead_letters.ReadReasons
    | inspect.AskService
    | staging.ListTransactions
    | schedules.ListSchedules
    | registrations.ListRegistrations
    | registrations.ListPushed
    | AskUnanswered
    | crowds.NextSubscribers
    | crowds.ListUnnotified
    | messages.ReadMessage
    | messages.ListMessages
)
"""Requests that never change anything: they are answered outside the batches, and delay none."""

READS: Final = frozenset(get_args(Read))
