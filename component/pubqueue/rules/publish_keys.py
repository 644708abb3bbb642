"""A publish under a key is done once, with a secret of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import PutRow
from pubqueue.model.decision import (
    Decision,
    KeyUsed,
    Published,
    Read,
    Refusal,
    Refused,
    Request,
    SecretKept,
    refuse,
)
from pubqueue.model.entities import later
from pubqueue.model.records import MAX_KEPT, ROW, KeyTotal, UsedKey, mark_of_key, size_of_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import Millis, NodeName, Principal
    from pubqueue.model.records import KeyFacts, PublishKey, ServiceSecret
    from pubqueue.rules.publication import Publish, PublishFacts


# A publish under a key is done once: a repetition gets the answer of the first, and does nothing.
#
# A publisher that loses an answer cannot know whether the items were published, and repeats the request. The row is written
# in the commit of the publish, so it exists exactly if the publish was done, also after a crash. It outlives items and node.
# A publish that is refused does not use its key.


def publish_with_key(
    rule: Callable[[Publish, PublishFacts], Decision], request: Publish, facts: PublishFacts
) -> Decision:
    """Decide a publish with a key by the rule for those without, unless the key was used."""
    key, known = request.key, facts.key
    if key is None or known is None:
        return rule(replace(request, key=None), facts)
    used = known.used
    if used is not None and used.until > facts.now:
        if key.strict and used.content != known.content:
            return refuse(Refusal.KEY_REUSED)
        return Decision(Published(request.node, used.ids, known=used.known, again=True))
    decision = rule(replace(request, key=None), facts)
    if not isinstance(decision.reply, Published):
        return decision
    noted = _noted(request, key, decision.reply, facts, known)
    if isinstance(noted, Refused):
        return Decision(noted)
    return replace(decision, changes=(*decision.changes, *noted))


def _noted(
    request: Publish, key: PublishKey, reply: Published, facts: PublishFacts, known: KeyFacts
) -> tuple[PutRow, PutRow] | Refused:
    """Note that the key is used, replacing an outdated record; refuse it if the account has too many keys."""
    account = request.by.account
    there = reply.known + reply.replaced  # a repetition finds both of them
    size = ROW + size_of_ids(reply.ids) + size_of_ids(there)
    before = 0 if known.total is None else known.total.bytes
    former = 0 if known.used is None else known.used.size
    total = before - former + size
    if total > MAX_KEPT:
        return Refused(Refusal.TOO_MANY_KEYS)
    used = UsedKey(
        mark_of_key(account, request.node, key.name),
        account,
        known.content,
        later(facts.now, key.remember),
        size,
        reply.ids,
        there,
    )
    return PutRow(used), PutRow(KeyTotal(account, total))


# Secrets of the service: each is made once, by the first instance that needs it, and is the same for all instances.


class KeepSecret(Request, frozen=True, gc=False):
    """Ask for the secret of this name, and keep the proposed one if there is none; only the service itself does."""

    by: Principal
    proposed: ServiceSecret


class KeepSecretFacts(Struct, frozen=True, gc=False):
    """The secret that is kept, if there is one."""

    kept: ServiceSecret | None


def keep_secret(request: KeepSecret, facts: KeepSecretFacts) -> Decision:
    """Return the secret that is kept from now on."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN)
    if facts.kept is not None:
        return Decision(SecretKept(facts.kept.value))
    return Decision(SecretKept(request.proposed.value), (PutRow(request.proposed),))


# Read what was published under a key: an account reads its own keys.


class ReadUsedKey(Read, frozen=True, gc=False):
    """Request the ids that the account has published to the node under this key."""

    node: NodeName
    key: str


class UsedKeyFacts(Struct, frozen=True, gc=False):
    """The record of the key."""

    now: Millis
    used: UsedKey | None


def read_used_key(request: ReadUsedKey, facts: UsedKeyFacts) -> Decision:
    """Return the ids, or None if nothing was published under the key, or that is no longer remembered."""
    used = facts.used
    is_known = used is not None and used.until > facts.now
    return Decision(KeyUsed(request.node, used.ids if used is not None and is_known else None))
