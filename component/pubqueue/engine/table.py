"""The table of requests: the facts, the rule and the bounds of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from pubqueue.engine.facts import (
    inspecting,
    keeping,
    managing,
    publishing,
    queue,
    reading,
    transactions,
)
from pubqueue.model.decision import Read
from pubqueue.rules import (
    alerts,
    audience,
    commit,
    damage,
    dead_letters,
    declare,
    definitions,
    deliveries,
    discovery,
    expire,
    inspect,
    joins,
    messages,
    moving,
    nodes,
    presence,
    publication,
    publish,
    publish_keys,
    read,
    registrations,
    retrieve,
    schedules,
    search,
    seek,
    settle,
    settle_each,
    signal_links,
    staging,
    subscribe,
    subscribers,
    survey,
    take,
    trimming,
    unlock,
    validity,
    waits,
)
from pubqueue.rules.together import Together
from pubqueue.rules.validity import too_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.context import Context
    from pubqueue.model.decision import Decision, Refused, Request


# The companion, the rule and the bounds of each request: one table.

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


def _for_search(context: Context, request: search.Search) -> search.SearchFacts:
    """Return what is decided about the next page of the list."""
    rule = RULES[type(request.within)]
    return search.SearchFacts(rule.decide(request.within, rule.facts(context, request.within)))


def _of_search(request: search.Search) -> Refused | None:
    fault = RULES[type(request.within)].fault
    return None if fault is None else fault(request.within)


# fmt: off
RULES: Final[dict[type, Rule]] = {
    publication.Publish:             _rule(publishing.for_publish, publish.publish, validity.of_publish),
    settle.Settle:                   _rule(queue.for_end, settle_each.settle_once, validity.of_settle),
    settle_each.SettleEach:          _rule(queue.for_each, settle_each.settle_each, validity.of_each),
    subscribe.Subscribe:             _rule(managing.for_subscription, subscribe.subscribe, validity.of_node),
    subscribe.SetOptions:            _rule(managing.for_subscription, subscribe.set_options, validity.of_node),
    subscribe.Unsubscribe:           _rule(managing.for_subscription, subscribe.unsubscribe, validity.of_node),
    subscribe.GetDefaultOptions:     _rule(managing.for_defaults, subscribe.get_default_options, validity.of_node),
    subscribers.QuietWorker:         _rule(managing.for_quiet, subscribers.quiet_worker, validity.of_node),
    subscribers.Answer:              _rule(managing.for_answer, subscribers.answer, validity.of_node),
    subscribers.ReadPending:         _rule(managing.for_pending, subscribers.read_pending, validity.of_node),
    subscribers.SendPending:         _rule(managing.for_send, subscribers.send_pending, validity.of_node),
    subscribers.GetSubscriptions:    _rule(managing.for_get_subscriptions, subscribers.get_subscriptions, validity.of_node),
    subscribers.SetSubscriptions:    _rule(managing.for_set_subscriptions, subscribers.set_subscriptions, validity.of_node),
    nodes.Create:                    _rule(managing.for_node, nodes.create, validity.of_new_node),
    declare.Declare:                 _rule(managing.for_node, declare.declare, validity.of_new_node),
    discovery.Describe:              _rule(managing.for_node, discovery.describe, validity.of_description),
    nodes.Configure:                 _rule(managing.for_node, nodes.configure_node, validity.of_node),
    nodes.Delete:                    _rule(managing.for_node, nodes.delete, validity.of_node),
    nodes.Purge:                     _rule(managing.for_node, nodes.purge, validity.of_node),
    nodes.GetAffiliations:           _rule(managing.for_get_affiliations, nodes.get_affiliations, validity.of_node),
    nodes.SetAffiliations:           _rule(managing.for_affiliations, nodes.set_affiliations, validity.of_node),
    nodes.SetPolicy:                 _rule(managing.for_affiliations, nodes.set_policy, validity.of_node),
    discovery.ListNodes:             _rule(managing.for_nodes, discovery.list_nodes),
    discovery.ListMyAffiliations:    _rule(managing.for_my_affiliations, discovery.list_my_affiliations, validity.of_node),
    discovery.ListMySubscriptions:   _rule(managing.for_my_subscriptions, discovery.list_my_subscriptions, validity.of_node),
    discovery.ListItems:             _rule(managing.for_items, discovery.list_items, validity.of_project),
    audience.NextSubscribers:        _rule(managing.for_next_subscribers, audience.next_subscribers),
    audience.NotifyFormer:           _rule(managing.for_former, audience.notify_former),
    audience.ListUnnotified:         _rule(managing.for_unnotified, audience.list_unnotified),
    audience.ReviewSubscribers:      _rule(managing.for_review, audience.review),
    audience.ResumeReviews:          _rule(managing.for_resume_reviews, audience.resume),
    trimming.TrimItems:              _rule(managing.for_trim, trimming.trim),
    trimming.ResumeTrims:            _rule(managing.for_resume_trims, trimming.resume),
    trimming.DropDead:               _rule(reading.for_drop_dead, trimming.drop_dead),
    declare.DeleteUnused:            _rule(managing.for_unused, declare.delete_unused),
    take.Take:                       _rule(queue.for_take, take.take, validity.of_take),
    waits.Hold:                      _rule(queue.for_hold, waits.hold, validity.of_hold),
    waits.Signal:                    _rule(queue.for_signal, waits.signal, validity.of_signal),
    joins.Close:                     _rule(queue.for_signal, joins.close, validity.of_node),
    signal_links.MakeSignalLink:     _rule(queue.for_signal_link, signal_links.make_signal_link, validity.of_signal_link),
    unlock.Touch:                    _rule(queue.for_settle, unlock.touch, validity.of_touch),
    dead_letters.Redrive:            _rule(reading.for_redrive, dead_letters.redrive, validity.of_redrive),
    seek.Seek:                       _rule(queue.for_seek, seek.seek, validity.of_node),
    seek.SeekItems:                  _rule(queue.for_seek_items, seek.seek_items),
    seek.ResumeSeeks:                _rule(queue.for_resume, seek.resume),
    seek.DropDone:                   _rule(queue.for_drop, seek.drop_done),
    dead_letters.Cancel:             _rule(queue.for_settle, dead_letters.cancel, validity.of_cancel),
    dead_letters.Discard:            _rule(queue.for_discard, dead_letters.discard, validity.of_node),
    retrieve.Retrieve:               _rule(reading.for_retrieve, retrieve.retrieve, validity.of_node),
    read.ReadEvents:                 _rule(reading.for_events, read.read, validity.of_node),
    read.ReadItems:                  _rule(reading.for_items, read.read, validity.of_node),
    read.ReadNodes:                  _rule(reading.for_read_nodes, read.read),
    definitions.ReadDefinitions:     _rule(reading.for_definitions, definitions.read_definitions),
    retrieve.ReadNewer:              _rule(reading.for_newer, retrieve.read_newer, validity.of_node),
    publish_keys.ReadUsedKey:        _rule(publishing.for_used_key, publish_keys.read_used_key, validity.of_node),
    settle.ReadHeld:                 _rule(queue.for_held, settle.read_held, validity.of_node),
    retrieve.AskNewest:              _rule(reading.for_newest, retrieve.ask_newest),
    survey.ReadSurvey:               _rule(reading.for_survey, survey.survey),
    read.Trim:                       _rule(reading.for_trim, read.trim),
    survey.KeepSamples:              _rule(inspecting.for_keep, survey.keep_samples),
    survey.ReadSamples:              _rule(inspecting.for_read, survey.read_samples),
    inspect.AskPowers:               _rule(inspecting.for_powers, inspect.ask_powers),
    inspect.ReadWorkers:             _rule(inspecting.for_workers, inspect.read_workers, validity.of_node),
    inspect.ReadConnections:         _rule(inspecting.for_connections, inspect.read_connections),
    inspect.EndConnection:           _rule(inspecting.for_end, inspect.end_connection),
    search.Search:                   _rule(_for_search, search.search, _of_search),
    inspect.Peek:                    _rule(inspecting.for_peek, inspect.peek, validity.of_node),
    inspect.ReadHistory:             _rule(inspecting.for_history, inspect.read_history, validity.of_node),
    dead_letters.ReadReasons:        _rule(inspecting.for_reasons, dead_letters.read_reasons, validity.of_node),
    dead_letters.ReadDeaths:         _rule(reading.for_deaths, dead_letters.read_deaths),
    inspect.AskService:              _rule(inspecting.for_service, inspect.ask_service),
    unlock.FreeLocks:                _rule(inspecting.for_free, unlock.free_locks, validity.of_free),
    unlock.Dismiss:                  _rule(inspecting.for_free, unlock.dismiss, validity.of_node),
    unlock.FreeHeld:                 _rule(inspecting.for_free_held, unlock.free_held),
    staging.StagePublish:            _rule(transactions.for_stage, staging.stage, validity.of_stage),
    staging.AbortVersion:            _rule(transactions.for_abort, staging.abort, validity.of_abort),
    staging.AskLastVersion:          _rule(transactions.for_app, staging.last_version, validity.of_app),
    staging.ListTransactions:        _rule(transactions.for_list, staging.list_transactions, validity.of_records),
    commit.CommitVersion:            _rule(transactions.for_commit, commit.commit, validity.of_commit),
    commit.LookAtWinners:            _rule(transactions.for_look, moving.look),
    moving.MoveWinners:              _rule(transactions.for_move, moving.move),
    moving.ResumeMoves:              _rule(transactions.for_resume, moving.resume),
    publish.LookAtFed:               _rule(publishing.for_look, publish.look),
    publish.MarkPublish:             _rule(publishing.for_mark, publish.mark),
    publish.FeedSlice:               _rule(publishing.for_slice, publish.feed),
    publish.ResumeFeeding:           _rule(publishing.for_resume, publish.resume),
    schedules.FireSchedule:          _rule(publishing.for_fire, schedules.fire),
    schedules.FireNow:               _rule(publishing.for_fire_now, schedules.fire_now),
    schedules.ListSchedules:         _rule(publishing.for_list_schedules, schedules.list_schedules),
    schedules.AddSchedule:           _rule(publishing.for_keep_schedule, schedules.add_schedule, validity.of_project),
    schedules.ChangeSchedule:        _rule(publishing.for_keep_schedule, schedules.change_schedule, validity.of_project),
    schedules.RemoveSchedule:        _rule(publishing.for_schedule, schedules.remove_schedule),
    schedules.PauseSchedule:         _rule(publishing.for_schedule, schedules.pause_schedule),
    schedules.DeclareSchedules:      _rule(publishing.for_declare, schedules.declare_schedules),
    presence.Arrive:                 _rule(queue.for_arrive, presence.arrive),
    publish_keys.KeepSecret:         _rule(publishing.for_secret, publish_keys.keep_secret),
    registrations.Register:          _rule(keeping.for_register, registrations.register, validity.of_node),
    registrations.Unregister:        _rule(keeping.for_registration, registrations.unregister, validity.of_node),
    registrations.Enable:            _rule(keeping.for_registration, registrations.enable, validity.of_node),
    registrations.Claim:             _rule(keeping.for_claim, registrations.claim),
    registrations.NotePush:          _rule(keeping.for_registration, registrations.note_push),
    registrations.ListRegistrations: _rule(keeping.for_list_registrations, registrations.list_registrations, validity.of_project),
    registrations.ListPushed:        _rule(managing.for_pushed, registrations.list_pushed),
    alerts.WatchAlerts:              _rule(keeping.for_watch, alerts.watch),
    alerts.NoteAlerts:               _rule(keeping.for_note, alerts.note, alerts.fault_of_note),
    alerts.NoteTarget:               _rule(keeping.for_target, alerts.note_target),
    alerts.ReadAlerts:               _rule(keeping.for_alerts, alerts.read_alerts),
    expire.Expire:                   _rule(queue.for_expiry, expire.expire),
    damage.EndDamaged:               _rule(queue.for_damaged, damage.end_damaged),
    damage.ComputeSums:              _rule(queue.for_sums, damage.compute_sums),
    expire.ListOverdue:              _rule(queue.for_list, expire.list_overdue),
    presence.Leave:                  _rule(queue.for_leave, presence.leave),
    presence.FreeLeft:               _rule(queue.for_free_left, presence.free_left),
    presence.FreeConnections:        _rule(queue.for_free_connections, presence.free_connections),
    presence.AnsweredElsewhere:      _rule(queue.for_answered, presence.answered_elsewhere),
    messages.Forward:                 _rule(keeping.for_forward, messages.forward),
    messages.EndForward:              _rule(keeping.for_end, messages.end_forward),
    messages.KeepMessage:            _rule(keeping.for_keep_message, messages.keep),
    messages.DeliverMessage:         _rule(keeping.for_deliver, messages.deliver),
    messages.ForgetMessages:         _rule(keeping.for_forget, messages.forget_messages),
    messages.DropMessages:           _rule(keeping.for_drop, messages.drop_messages),
    messages.ReadMessage:            _rule(keeping.for_read, messages.read_message),
    messages.ListMessages:           _rule(keeping.for_list_messages, messages.list_messages),
    presence.Bounce:                 _rule(queue.for_bounce, presence.bounce),
    unlock.Recover:                  _rule(queue.for_recovery, unlock.recover),
    unlock.Resend:                   _rule(queue.for_resend, unlock.resend),
    presence.ReachChanged:           _rule(queue.for_reach, presence.reach_changed),
    deliveries.AskUnanswered:        _rule(queue.for_unanswered, deliveries.ask_unanswered),
    deliveries.NoteDeliveryAnswer:   _rule(queue.for_delivery_answer, deliveries.note_answer),
    deliveries.GiveUpUnanswered:     _rule(queue.for_giving_up, deliveries.give_up),
    deliveries.NoteFeatures:         _rule(queue.for_features, deliveries.note_features),
}
# fmt: on
"""All requests but `Together`, whose parts each have a row."""

READS: Final = frozenset(kind for kind in RULES if issubclass(kind, Read))
"""Requests that never change anything: they are answered outside the batches, and delay none."""


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
