"""What the parts of the face share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.flow.intake import Intake
    from pubqueue.faces.xmpp.answers import Answers
    from pubqueue.model.entities import Jid, Principal


class Link(Struct, frozen=True):
    """The name of the service on its stream, who its senders are, and the ways in and out.

    `write` sends bytes on the stream, and returns whether there is one; `intake` counts what is under way.
    """

    jid: str
    broker: Broker
    principal: Callable[[Jid], Principal]
    write: Callable[[bytes], bool]
    intake: Intake
    answers: Answers
