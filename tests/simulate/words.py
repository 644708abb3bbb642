"""What goes over the simulated network, in the place of stanzas. Of each the network needs only whom it is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pubqueue.core.notices import Notice
from pubqueue.core.queue.expire import Arrive, Bounce, Leave

if TYPE_CHECKING:
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Jid


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
