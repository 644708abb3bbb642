"""What is sent after a commit: the replies in the order of the requests, each before its notices, and the deliveries last.

All of it is committed. So each message has a boundary of its own: if one cannot be sent, all others still are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from pubqueue.app.boundaries import answer_with, apart
from pubqueue.model.entities import connection
from pubqueue.model.notices import Deliver
from pubqueue.rules.presence import Bounce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.notify.fan_out import FanOut
    from pubqueue.app.notify.outbox import Outbox
    from pubqueue.app.rules import Request
    from pubqueue.app.sliced_work import LongWork
    from pubqueue.model.decision import Decision, Reply
    from pubqueue.model.entities import Jid
    from pubqueue.model.notices import News, Notice

    Taken = tuple[Request, Callable[[Reply], None]]


log = structlog.get_logger(__name__)


class Sender:
    """Sends answers and notices. `on_unsent` is called if a repeated delivery could not be sent; `submit` returns items to the queue.

    `service` is the address of the service itself: a connection of one of its accounts never comes back.
    """

    def __init__(
        self,
        outbox: Outbox,
        news: FanOut,
        long_work: LongWork,
        *,
        service: Jid,
        submit: Callable[[Request, Callable[[Reply], None]], None],
        on_unsent: Callable[[], None],
    ) -> None:
        self.outbox, self._fan_out, self._long_work = outbox, news, long_work
        self._service, self._submit, self._on_unsent = service, submit, on_unsent

    def answer(self, taken: Sequence[Taken], decisions: Sequence[Decision], *, last: bool) -> None:
        """Answer the requests. Work that has more slices continues; after `last`, it continues at the next start."""
        for (_, answer), decision in zip(taken, decisions, strict=True):
            then = None if last else decision.then
            if then is None:
                answer_with(answer, decision.reply)
            if decision.notices:
                self.send(decision.notices)
            if then is not None:
                with apart("work.failed"):
                    self._long_work.go_on(decision, answer)

    def send(self, notices: Sequence[Notice | News]) -> None:
        """Send notices; an item that could not be sent returns to the queue, without counting a failure.

        An item that its holder may have already stays locked, and is sent once more.
        """
        try:
            for notice in self.outbox.send(self._fan_out.keep(notices)):
                if not isinstance(notice, Deliver):
                    continue
                if not notice.again:
                    back = Bounce(notice.to, notice.item.seq, notice.item.token, gone=False)
                    self._submit(back, lambda _reply: None)
                elif self.outbox.claims(notice.to) and not self._is_connection(notice.to):
                    self._on_unsent()
        except Exception:  # the boundary between the notices of two requests
            log.exception("notices.failed")

    def _is_connection(self, address: Jid) -> bool:
        """Return whether it is a connection of an account of the service: when that is gone, its items are released."""
        return connection(address, self._service) is not None
