"""Secrets of the service: each is made once, by the first instance that needs it, and is the same for all instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import PutRow
from pubqueue.core.decision import Decision, Refusal, SecretKept, refuse

if TYPE_CHECKING:
    from pubqueue.core.model import Principal
    from pubqueue.core.publishing.service_secret import ServiceSecret


class KeepSecret(Struct, frozen=True, gc=False):
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
