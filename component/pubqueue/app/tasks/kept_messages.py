"""Ends messages of assured service whose time is over, and forgets the answers that are remembered no more."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.store.listings import MessagesOver
from pubqueue.app.store.ports import FencedError, StoreError
from pubqueue.model.records import MessagesEnded
from pubqueue.rules.messages import ForgetMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.app.broker import Broker
    from pubqueue.app.store.ports import Store, Transaction
    from pubqueue.model.entities import Millis
    from pubqueue.model.records import KeptMessage

log = structlog.get_logger(__name__)

PERIOD: Final = 2.0
"""Seconds between two looks, each of which reads a row."""


async def end_messages(
    broker: Broker, store: Store, report: Callable[[Iterable[KeptMessage]], None]
) -> None:
    """Look for what is over until cancelled; `report` gets the messages that ended undelivered.

    Raises:
        FencedError: this process no longer serves.

    """
    while True:
        try:
            while await store.read(partial(_is_over, broker.now())):
                reply = await broker.handle(ForgetMessages())
                if not isinstance(reply, MessagesEnded):
                    break
                report(reply.held)
        except FencedError:
            raise
        except StoreError as problem:
            log.warning("kept_messages.failed", why=str(problem))
        await asyncio.sleep(PERIOD)


def _is_over(now: Millis, tx: Transaction) -> bool:
    return bool(tx.page(MessagesOver(now), None, 1))
