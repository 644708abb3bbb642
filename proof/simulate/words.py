"""What goes over the simulated network, in the place of stanzas. Of each the network needs only whom it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pubqueue.model.decision import Taken
from pubqueue.model.notices import Deliver, Notice
from pubqueue.rules.presence import Arrive, Bounce, Leave

if TYPE_CHECKING:
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.entities import Item, Jid


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, which wants an answer under its number."""

    by: Jid
    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request; None: the server says that the service is not there."""

    to: Jid
    number: int
    reply: Reply | None


ToService = Ask | Arrive | Leave | Bounce
"""What instances hear."""

ToClient = Answer | Notice
"""What clients hear."""


def handed_out(what: ToClient) -> tuple[Item, ...]:
    """Return the items that are handed out with it: by a delivery, or by the answer to a take."""
    if isinstance(what, Deliver):
        return (what.item,)
    if isinstance(what, Answer) and isinstance(what.reply, Taken):
        return tuple(item for item, _ in what.reply.items)
    return ()
