"""Nodes of the configuration file, and queues that are deleted when they are unused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import Change, ConfigureNode, DeleteNode, SetAffiliation
from pubqueue.model.decision import Decision, LookedThrough, Refused, Request
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Jid,
    Node,
    NodeConfig,
    NodeName,
    Principal,
    account_of,
    later,
    seconds,
)
from pubqueue.model.replies import Created, Declared, Difference
from pubqueue.rules import feed
from pubqueue.rules.nodeconfig import Settings, configure, refit, written
from pubqueue.rules.nodes import NodeFacts, make_node, may_become, reviewed, trimmed, unheld

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pubqueue.model.entities import Millis
    from pubqueue.rules.access import Others


# Nodes of the configuration file: created if they do not exist, otherwise changed to match the declaration.
#
# Only the declared settings are changed: settings and accounts that the file does not name stay as
# the owners have left them. If it names owners, the node has these owners and no others: an account
# that took the name before the file did loses it. Impossible changes, and those that need an
# operator's attention, are reported as a difference. A node that is declared as a queue and cannot
# become one is refused, because items published to it would be confirmed and never processed.


class Declare(Request, frozen=True, gc=False):
    """Create a node of the configuration file, or change the existing one to match the file."""

    by: Principal
    node: NodeName
    settings: Settings
    owners: tuple[Jid, ...] = ()
    publishers: tuple[Jid, ...] = ()
    publish_only: tuple[Jid, ...] = ()
    members: tuple[Jid, ...] = ()
    outcasts: tuple[Jid, ...] = ()


_PLAIN: Final = "it is a plain node that {} has made; start without the file, purge or delete the node, and reload the file"

OPEN_TO_ALL: Final = "anyone may subscribe, and no setting in the file allows it"


def declare(request: Declare, facts: NodeFacts) -> Decision:
    """Decide about a node of the configuration file."""
    people = _people(request)
    if facts.node is None:
        wanted = request.node, request.settings, request.by
        made = make_node(*wanted, facts.now, people, facts.others)
        if isinstance(made.reply, Created):
            return replace(made, reply=Declared(request.node, made=True))
        return made
    return _bring(request, facts.node, facts, people)


def _people(request: Declare) -> dict[Jid, Affiliation]:
    """Return the affiliation of each named account; if several lists name it, the strongest counts."""
    lists = (
        (request.outcasts, Affiliation.OUTCAST),
        (request.members, Affiliation.MEMBER),
        (request.publish_only, Affiliation.PUBLISH_ONLY),
        (request.publishers, Affiliation.PUBLISHER),
        (request.owners, Affiliation.OWNER),
    )
    return {account_of(jid): affiliation for jids, affiliation in lists for jid in jids}


def _settled(
    request: Declare, node: Node, facts: NodeFacts
) -> tuple[NodeConfig, list[Difference]] | Refused:
    """Return the settings that the node gets, and those that it keeps although others are declared."""
    config = configure(node.config, request.settings)
    if isinstance(config, Refused):
        return config
    kept: list[Difference] = []
    misfit = refit(node, config)
    if misfit is not None and misfit.setting == "queueing":
        if config.queueing:
            return replace(misfit, reason=f"{misfit.reason}: {_PLAIN.format(node.creator)}")
        kept.append(_mode_kept(node, config, misfit))
        config = _with_mode_of(node, config, request.settings)
        misfit = refit(node, config)
    if config.access_model is not node.config.access_model:
        misfit = misfit or unheld(request.by, config)
    named = request.by, node.name, node.config, config, facts.others
    bound = misfit or may_become(*named)
    if isinstance(bound, Refused):
        return bound
    if bound.queueing and _open_undeclared(bound, request.settings):
        kept.append(_difference("access_model", "open", "", OPEN_TO_ALL))
    return bound, kept


def _bring(
    request: Declare, node: Node, facts: NodeFacts, people: Mapping[Jid, Affiliation]
) -> Decision:
    settled = _settled(request, node, facts)
    if isinstance(settled, Refused):
        return Decision(settled)
    config, kept = settled
    before = dict(facts.affiliations)
    owners = _owners(request)
    people = dict.fromkeys(_deposed(before, owners), Affiliation.NONE) | dict(people)
    joined = {jid: is_a for jid, is_a in people.items() if before.get(jid) is not is_a}
    after = before | dict(people)
    maker = _maker(request, node, owners)
    changed = config != node.config or maker is not None
    changes: list[Change] = [ConfigureNode(node.name, config, maker)] if changed else []
    changes += [SetAffiliation(node.name, *entry) for entry in joined.items()]
    changes += trimmed(node, config)
    changes += feed.attached(request.by, node.name, node.config, config, facts.others)
    if config.source == node.config.source:
        kept_queue = replace(node, config=config)
        changes += feed.inherited(request.by, kept_queue, facts.others, people)
    changes += feed.reconsidered(replace(node, config=config), facts.feeders, people)
    reply = Declared(
        request.node,
        made=False,
        changed=(*_changed(node.config, config), *_joined(before, joined)),
        kept=tuple(kept),
        unnamed=tuple(jid for jid in before if jid not in people) if people else (),
    )
    subscriptions = facts.subscriptions if changes else ()
    return reviewed(replace(node, config=config), reply, tuple(changes), subscriptions, after)


def _owners(request: Declare) -> frozenset[Jid]:
    return frozenset(account_of(jid) for jid in request.owners)


def _deposed(before: Mapping[Jid, Affiliation], owners: Collection[Jid]) -> list[Jid]:
    """Return the owners of the node that the file removes, because it names others."""
    if not owners:
        return []
    return [jid for jid, is_a in before.items() if is_a is Affiliation.OWNER and jid not in owners]


def _maker(request: Declare, node: Node, owners: Collection[Jid]) -> Jid | None:
    """Return the service if it takes over a node that was created by neither itself nor an owner, otherwise None."""
    mine = request.by.account
    return mine if owners and node.creator not in {mine, *owners} else None


def _mode_kept(node: Node, wanted: NodeConfig, misfit: Refused) -> Difference:
    stored, declared = written(node.config)["queueing"], written(wanted)["queueing"]
    return _difference("queueing", stored, declared, misfit.reason.removeprefix("queueing").strip())


def _with_mode_of(node: Node, wanted: NodeConfig, settings: Settings) -> NodeConfig:
    """Return the declared settings, in the mode that the node is in, and as open as it was."""
    if "access_model" not in settings.values:
        wanted = replace(wanted, access_model=node.config.access_model)
    return replace(wanted, queueing=node.config.queueing)


def _open_undeclared(config: NodeConfig, settings: Settings) -> bool:
    return config.access_model is AccessModel.OPEN and "access_model" not in settings.values


def _changed(before: NodeConfig, after: NodeConfig) -> Iterator[Difference]:
    stored = written(before)
    for name, declared in written(after).items():
        if declared != stored[name]:
            yield _difference(name, stored[name], declared)


def _joined(
    before: Mapping[Jid, Affiliation], joined: Mapping[Jid, Affiliation]
) -> Iterator[Difference]:
    for jid, declared in joined.items():
        yield _difference(jid, before.get(jid, Affiliation.NONE), declared)


def _difference(name: str, stored: str, declared: str, reason: str = "") -> Difference:
    return Difference(name, str(stored), str(declared), reason)


# Queues that are deleted when they have not been used for the time that their owner has set.
#
# A queue is in use while it has subscribers, and while items are requested (`take`). Its settings keep the time of the last
# request, to within a sixteenth of the span, so that a worker that polls does not write with each poll. Time counts from the first
# look at a queue.

SLICE: Final = 200
"""Nodes that are looked at in one step."""

PARTS: Final = 16
"""The number of parts of the span: the last use is known to within one part."""


class DeleteUnused(Request, frozen=True, gc=False):
    """Look at the next nodes after `after`, by name, and delete the queues that were not used for too long."""

    after: NodeName = NodeName("")


class UnusedFacts(Struct, frozen=True, gc=False):
    """The nodes of this step that may be deleted, each with those that feed it; and where the next step begins, empty at the end."""

    now: Millis
    queues: tuple[tuple[Node, Others], ...] = ()
    next: NodeName = NodeName("")


def is_kept_for_a_time(node: Node) -> bool:
    """Return whether the node is a queue that is deleted when it is not used."""
    return node.config.queueing and node.config.unused_expire is not None


def used(node: Node, now: Millis, wait: Millis) -> tuple[Change, ...]:
    """Return the change for a queue whose items are requested for this span from now on, if its use has to be recorded."""
    span = node.config.unused_expire
    if span is None:
        return ()
    until = later(now, wait)
    if until - node.config.used < seconds(span) // PARTS:
        return ()
    return (_noted(node, until),)


def delete_unused(_request: DeleteUnused, facts: UnusedFacts) -> Decision:
    """Delete up to one queue in a step, because one node may feed several; the next step begins after it."""
    changes: list[Change] = []
    for node, others in facts.queues:
        span = node.config.unused_expire
        if node.subscriptions or not node.config.used or span is None:
            changes += used(node, facts.now, seconds(0))
        elif node.config.used + seconds(span) <= facts.now:
            gone = DeleteNode(node.name, announce=False)
            ends = (*changes, *feed.detached(node, others), gone)
            return Decision(LookedThrough(node.name), ends, then=DeleteUnused(node.name))
    return Decision(LookedThrough(facts.next), tuple(changes))


def _noted(node: Node, moment: Millis) -> ConfigureNode:
    return ConfigureNode(node.name, replace(node.config, used=moment))
