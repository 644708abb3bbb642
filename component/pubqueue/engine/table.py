"""The table of requests: the facts, the rule and the bounds of each."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args

from pubqueue.engine.facts import (
    inspecting,
    keeping,
    managing,
    publishing,
    queue,
    reading,
    scheduling,
    transactions,
)
from pubqueue.model.decision import Refusal, Refused
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
from pubqueue.rules import deliveries as give_up
from pubqueue.rules import moving as moves
from pubqueue.rules import trimming as trims
from pubqueue.rules.dead_letters import Cancel, Redrive
from pubqueue.rules.deliveries import (
    AskUnanswered,
    NoteDeliveryAnswer,
    NoteFeatures,
    ask_unanswered,
    note_answer,
    note_features,
)
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.staging import StagePublish
from pubqueue.rules.subscribers import SetSubscriptions
from pubqueue.rules.together import Together, names_of
from pubqueue.rules.unlock import FreeLocks, Touch

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from pubqueue.engine.context import Context
    from pubqueue.model.decision import Decision


# The companion, the rule and the bounds of each request: one table.

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
    | audience.NextSubscribers
    | audience.NotifyFormer
    | audience.ListUnnotified
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
    settle.Settle:               _rule(queue.for_end, settle_each.settle_once, validity.of_settle),
    settle_each.SettleEach:             _rule(queue.for_each, settle_each.settle_each, validity.of_each),
    subscribe.Subscribe:         _rule(managing.for_subscription, subscribe.subscribe, validity.of_node),
    subscribe.SetOptions:        _rule(managing.for_subscription, subscribe.set_options, validity.of_node),
    subscribe.Unsubscribe:       _rule(managing.for_subscription, subscribe.unsubscribe, validity.of_node),
    subscribe.GetDefaultOptions: _rule(managing.for_defaults, subscribe.get_default_options, validity.of_node),
    subscribers.Answer:              _rule(managing.for_answer, subscribers.answer, validity.of_node),
    subscribers.ReadPending:         _rule(managing.for_pending, subscribers.read_pending, validity.of_node),
    subscribers.SendPending:         _rule(managing.for_send, subscribers.send_pending, validity.of_node),
    subscribers.GetSubscriptions: _rule(managing.for_get_subscriptions, subscribers.get_subscriptions, validity.of_node),
    subscribers.SetSubscriptions: _rule(managing.for_set_subscriptions, subscribers.set_subscriptions, validity.of_node),
    nodes.Create:               _rule(managing.for_node, nodes.create, validity.of_node),
    declare.Declare:             _rule(managing.for_node, declare.declare, validity.of_node),
    discovery.Describe:             _rule(managing.for_node, discovery.describe, validity.of_description),
    nodes.Configure:            _rule(managing.for_node, nodes.configure_node, validity.of_node),
    nodes.Delete:               _rule(managing.for_node, nodes.delete, validity.of_node),
    nodes.Purge:                _rule(managing.for_node, nodes.purge, validity.of_node),
    nodes.GetAffiliations:      _rule(managing.for_get_affiliations, nodes.get_affiliations, validity.of_node),
    nodes.SetAffiliations:      _rule(managing.for_affiliations, nodes.set_affiliations, validity.of_node),
    discovery.ListNodes:            _rule(managing.for_nodes, discovery.list_nodes),
    discovery.ListMyAffiliations:  _rule(managing.for_my_affiliations, discovery.list_my_affiliations, validity.of_node),
    discovery.ListMySubscriptions: _rule(managing.for_my_subscriptions, discovery.list_my_subscriptions, validity.of_node),
    discovery.ListItems:            _rule(managing.for_items, discovery.list_items),
    audience.NextSubscribers:      _rule(managing.for_next_subscribers, audience.next_subscribers),
    audience.NotifyFormer:           _rule(managing.for_former, audience.notify_former),
    audience.ListUnnotified:           _rule(managing.for_unnotified, audience.list_unnotified),
    audience.ReviewSubscribers:    _rule(managing.for_review, audience.review),
    audience.ResumeReviews:        _rule(managing.for_resume_reviews, audience.resume),
    trims.TrimItems:             _rule(managing.for_trim, trims.trim),
    trims.ResumeTrims:           _rule(managing.for_resume_trims, trims.resume),
    declare.DeleteUnused:         _rule(managing.for_unused, declare.delete_unused),
    take.Take:                   _rule(queue.for_take, take.take, validity.of_take),
    unlock.Touch:                 _rule(queue.for_settle, unlock.touch, validity.of_touch),
    dead_letters.Redrive:             _rule(reading.for_redrive, dead_letters.redrive, validity.of_redrive),
    seek.Seek:                   _rule(queue.for_seek, seek.seek, validity.of_node),
    seek.SeekItems:              _rule(queue.for_seek_items, seek.seek_items),
    seek.ResumeSeeks:            _rule(queue.for_resume, seek.resume),
    seek.DropDone:               _rule(queue.for_drop, seek.drop_done),
    dead_letters.Cancel:               _rule(queue.for_settle, dead_letters.cancel, validity.of_cancel),
    dead_letters.Discard:              _rule(queue.for_discard, dead_letters.discard, validity.of_node),
    retrieve.Retrieve:           _rule(reading.for_retrieve, retrieve.retrieve, validity.of_node),
    read.ReadEvents:             _rule(reading.for_events, read.read, validity.of_node),
    read.ReadItems:              _rule(reading.for_items, read.read, validity.of_node),
    read.ReadNodes:              _rule(reading.for_read_nodes, read.read),
    retrieve.ReadNewer:             _rule(reading.for_newer, retrieve.read_newer, validity.of_node),
    once.ReadUsedKey:        _rule(publishing.for_used_key, once.read_used_key, validity.of_node),
    settle.ReadHeld:               _rule(queue.for_held, settle.read_held, validity.of_node),
    retrieve.AskNewest:             _rule(reading.for_newest, retrieve.ask_newest),
    survey.ReadSurvey:           _rule(reading.for_survey, survey.survey),
    read.Trim:                   _rule(reading.for_trim, read.trim),
    survey.KeepSamples:         _rule(inspecting.for_keep, survey.keep_samples),
    survey.ReadSamples:         _rule(inspecting.for_read, survey.read_samples),
    inspect.AskPowers:           _rule(inspecting.for_powers, inspect.ask_powers),
    inspect.ReadWorkers:         _rule(inspecting.for_workers, inspect.read_workers, validity.of_node),
    inspect.ReadConnections: _rule(inspecting.for_connections, inspect.read_connections),
    inspect.EndConnection:   _rule(inspecting.for_end, inspect.end_connection),
    inspect.Peek:                _rule(inspecting.for_peek, inspect.peek, validity.of_node),
    dead_letters.ReadReasons:          _rule(inspecting.for_reasons, dead_letters.read_reasons, validity.of_node),
    inspect.AskService:          _rule(inspecting.for_service, inspect.ask_service),
    unlock.FreeLocks:              _rule(inspecting.for_free, unlock.free_locks, validity.of_free),
    unlock.Dismiss:                _rule(inspecting.for_free, unlock.dismiss, validity.of_node),
    unlock.FreeHeld:               _rule(inspecting.for_free_held, unlock.free_held),
    staging.StagePublish:        _rule(transactions.for_stage, staging.stage, validity.of_stage),
    staging.AbortVersion:        _rule(transactions.for_abort, staging.abort, validity.of_abort),
    staging.AskLastVersion:      _rule(transactions.for_app, staging.last_version, validity.of_app),
    staging.ListTransactions:    _rule(transactions.for_list, staging.list_transactions, validity.of_records),
    commit.CommitVersion:        _rule(transactions.for_commit, commit.commit, validity.of_commit),
    commit.LookAtWinners:        _rule(transactions.for_look, moves.look),
    moves.MoveWinners:           _rule(transactions.for_move, moves.move),
    moves.ResumeMoves:           _rule(transactions.for_resume, moves.resume),
    publish.LookAtFed:         _rule(publishing.for_look, publish.look),
    publish.MarkPublish:       _rule(publishing.for_mark, publish.mark),
    publish.FeedSlice:         _rule(publishing.for_slice, publish.feed),
    publish.ResumeFeeding:     _rule(publishing.for_resume, publish.resume),
    schedules.FireSchedule:           _rule(scheduling.for_fire, schedules.fire),
    schedules.FireNow:                _rule(scheduling.for_fire_now, schedules.fire_now),
    schedules.ListSchedules:          _rule(scheduling.for_list_schedules, schedules.list_schedules),
    schedules.AddSchedule:            _rule(scheduling.for_keep_schedule, schedules.add_schedule),
    schedules.ChangeSchedule:         _rule(scheduling.for_keep_schedule, schedules.change_schedule),
    schedules.RemoveSchedule:         _rule(scheduling.for_schedule, schedules.remove_schedule),
    schedules.PauseSchedule:          _rule(scheduling.for_schedule, schedules.pause_schedule),
    schedules.DeclareSchedules:       _rule(scheduling.for_declare, schedules.declare_schedules),
    presence.Arrive:               _rule(queue.for_arrive, presence.arrive),
    once.KeepSecret:  _rule(publishing.for_secret, once.keep_secret),
    registrations.Register:        _rule(keeping.for_register, registrations.register, validity.of_node),
    registrations.Unregister:      _rule(keeping.for_registration, registrations.unregister, validity.of_node),
    registrations.Enable:          _rule(keeping.for_registration, registrations.enable, validity.of_node),
    registrations.Claim:           _rule(keeping.for_claim, registrations.claim),
    registrations.NotePush:        _rule(keeping.for_registration, registrations.note_push),
    registrations.ListRegistrations: _rule(keeping.for_list_registrations, registrations.list_registrations),
    registrations.ListPushed:           _rule(managing.for_pushed, registrations.list_pushed),
    expire.Expire:               _rule(queue.for_expiry, expire.expire),
    expire.ListOverdue:          _rule(queue.for_list, expire.list_overdue),
    presence.Leave:                _rule(queue.for_leave, presence.leave),
    presence.FreeLeft:             _rule(queue.for_free_left, presence.free_left),
    presence.AnsweredElsewhere:  _rule(queue.for_answered, presence.answered_elsewhere),
    forward.Forward:         _rule(keeping.for_forward, forward.forward),
    forward.EndForward:      _rule(keeping.for_end, forward.end_forward),
    messages.KeepMessage:           _rule(keeping.for_keep_message, messages.keep),
    messages.DeliverMessage:     _rule(keeping.for_deliver, messages.deliver),
    messages.ForgetMessages:      _rule(keeping.for_forget, messages.forget_messages),
    messages.DropMessages:        _rule(keeping.for_drop, messages.drop_messages),
    messages.ReadMessage:       _rule(keeping.for_read, messages.read_message),
    messages.ListMessages:      _rule(keeping.for_list_messages, messages.list_messages),
    presence.Bounce:               _rule(queue.for_bounce, presence.bounce),
    unlock.Recover:             _rule(queue.for_recovery, unlock.recover),
    unlock.Resend:               _rule(queue.for_resend, unlock.resend),
    presence.ReachChanged:   _rule(queue.for_reach, presence.reach_changed),
    AskUnanswered:         _rule(queue.for_unanswered, ask_unanswered),
    NoteDeliveryAnswer:  _rule(queue.for_delivery_answer, note_answer),
    give_up.GiveUpUnanswered:    _rule(queue.for_giving_up, give_up.give_up),
    NoteFeatures:       _rule(queue.for_features, note_features),
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
    | audience.NextSubscribers
    | audience.ListUnnotified
    | messages.ReadMessage
    | messages.ListMessages
)
"""Requests that never change anything: they are answered outside the batches, and delay none."""

READS: Final = frozenset(get_args(Read))


# How much one request may name: its batch takes it whole, and all other requests wait for that.
#
# Judged by the request alone, before any row is loaded. Larger amounts need several requests, each of which is done whole
# or not at all, and has an answer of its own.

MAX_PUBLISHED: Final = 1_000
"""Items of one publish, staged or not."""

MAX_TOGETHER: Final = 1_000
"""Parts that are done together, and the items in all of them."""

MAX_BYTES_TOGETHER: Final = 4 << 20
"""Bytes of the payloads of these in total."""

MAX_NAMED: Final = 500
"""Items that one request names by their ids: those of a retract, an unlock, a touch, and of operators' requests."""

MAX_ENTRIES: Final = 500
"""Affiliations or subscriptions that one request changes."""

_OF_ITEMS: Final = MAX_NAMED, attrgetter("ids")
_TOO_MANY_ENTRIES: Final = Refused(
    Refusal.BAD_REQUEST, f"a request changes up to {MAX_ENTRIES} entries"
)

# fmt: off
SIZES: Final[dict[type, tuple[int, Callable[[Any], Sized]]]] = {
    Publish:          (MAX_PUBLISHED, attrgetter("drafts")),
    StagePublish:     (MAX_PUBLISHED, attrgetter("publish.drafts")),
    Settle:           _OF_ITEMS,
    SettleEach:       (MAX_NAMED, attrgetter("locks")),
    Together:         (MAX_TOGETHER, lambda request: range(sum(map(names_of, request.parts)))),
    Touch:            _OF_ITEMS,
    Cancel:           _OF_ITEMS,
    FreeLocks:        _OF_ITEMS,
    Redrive:          (MAX_NAMED, lambda request: request.ids or ()),
    SetAffiliations:  (MAX_ENTRIES, attrgetter("entries")),
    SetSubscriptions: (MAX_ENTRIES, attrgetter("wishes")),
}
# fmt: on
"""For each kind of request with many names: how many it may have, and what it names."""


def size_of(request: object) -> int:
    """Return how many items or entries the request names; 1 if its kind names only one."""
    kind = type(request)
    return len(SIZES[kind][1](request)) if kind in SIZES else 1


def too_many(request: object) -> Refused | None:
    """Refuse a request with more names than one batch accepts."""
    kind = type(request)
    if kind not in SIZES:
        return None
    most, named = SIZES[kind]
    if len(named(request)) <= most:
        return _too_large(request) if type(request) is Together else None
    if isinstance(request, SetAffiliations | SetSubscriptions):
        return _TOO_MANY_ENTRIES
    return Refused(Refusal.TOO_MANY_ITEMS, limit=most)


def _too_large(request: Together) -> Refused | None:
    """Refuse payloads that are larger than one write may be; the items of single publishes are limited one by one."""
    publishes = (part for part in request.parts if type(part) is Publish)
    size = sum(len(draft.payload) for part in publishes for draft in part.drafts)
    if size <= MAX_BYTES_TOGETHER:
        return None
    words = f"the payloads of what is done together have up to {MAX_BYTES_TOGETHER} bytes in all"
    return Refused(Refusal.PAYLOAD_TOO_BIG, words, MAX_BYTES_TOGETHER)
