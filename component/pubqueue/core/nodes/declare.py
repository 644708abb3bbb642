"""Nodes of the configuration file: created if they do not exist, otherwise changed to match the declaration.

Only the declared settings are changed: settings and accounts that the file does not name stay as
the owners have left them. If it names owners, the node has these owners and no others: an account
that took the name before the file did loses it. Impossible changes, and those that need an
operator's attention, are reported as a difference. A node that is declared as a queue and cannot
become one is refused, because items published to it would be confirmed and never processed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.addresses import account_of
from pubqueue.core.changes import Change, ConfigureNode, SetAffiliation
from pubqueue.core.decision import Decision, Refused
from pubqueue.core.model import AccessModel, Affiliation, Jid, Node, NodeConfig, NodeName, Principal
from pubqueue.core.nodes.manage import (
    NodeFacts,
    make_node,
    may_become,
    reviewed,
    trimmed,
    unheld,
)
from pubqueue.core.nodes.nodeconfig import Settings, configure, refit, written
from pubqueue.core.nodes.replies import Created, Declared, Difference
from pubqueue.core.publishing import sources

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping


class Declare(Struct, frozen=True, gc=False):
    """Create a node of the configuration file, or change the existing one to match the file."""

    by: Principal
    node: NodeName
    settings: Settings
    owners: tuple[Jid, ...] = ()
    publishers: tuple[Jid, ...] = ()
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
    changes += sources.attached(request.by, node.name, node.config, config, facts.others)
    if config.source == node.config.source:
        kept_queue = replace(node, config=config)
        changes += sources.inherited(request.by, kept_queue, facts.others, people)
    changes += sources.reconsidered(replace(node, config=config), facts.feeders, people)
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
