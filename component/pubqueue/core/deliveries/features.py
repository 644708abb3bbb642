"""What the client of a full JID can do: asked for the queues whose setting depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import NoteAble
from pubqueue.core.decision import Decision, Done

if TYPE_CHECKING:
    from pubqueue.core.model import Jid


class NoteFeatures(Struct, frozen=True, gc=False):
    """The client of the JID has answered whether it has `urn:xmpp:qos`."""

    jid: Jid
    able: bool


class FeatureFacts(Struct, frozen=True, gc=False):
    """Whether the JID is here, and what is known of its client."""

    is_here: bool
    able: bool | None = None


def note_features(request: NoteFeatures, facts: FeatureFacts) -> Decision:
    """Note the answer of an address that is here; nothing is stored of others."""
    if not facts.is_here or facts.able is request.able:
        return Decision(Done())
    return Decision(Done(), (NoteAble(request.jid, request.able),))
