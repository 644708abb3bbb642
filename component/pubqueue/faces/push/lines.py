"""One line of pushes, one after the other: of a queue, whose items are locked meanwhile, or of a topic, from a number."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pubqueue.faces.push.verdicts import Outcome, Verdict
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import seconds
from pubqueue.model.replies import NewerItems
from pubqueue.rules.retrieve import ReadNewer
from pubqueue.rules.settle import Outcome as Ending
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.take import Take
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from pubqueue.faces.push.work import Work
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item

WAIT: Final = 30.0
"""Seconds for which a line waits before it looks again."""

PAUSE: Final = 1.0
TRIES: Final = 3
"""Tries for a message of a topic, which has no locks and no dead letters."""

SOONEST: Final = 0.1
"""Minimum seconds between two touches of a lock."""

ENDINGS: Final = {
    Verdict.BAD: Ending.REJECT,
    Verdict.FAILED: Ending.FAILED,
    Verdict.LATER: Ending.RELEASE,
    Verdict.AGAIN: Ending.RELEASE,
    Verdict.GONE: Ending.RELEASE,
    Verdict.DISABLED: Ending.RELEASE,
}
"""The end of an attempt that did not succeed."""

FINAL: Final = frozenset({Verdict.GONE, Verdict.DISABLED})


class QueueLine:
    """Takes an item, pushes it, and settles it."""

    def __init__(self, work: Work, number: int) -> None:
        self._work, self._number = work, number
        self._submit = work.broker.submit

    async def run(self) -> None:
        """Push items as they arrive."""
        work = self._work
        while not work.is_over.is_set():
            await work.turn(self._number)
            reply = await self._taken()
            if isinstance(reply, Taken) and reply.items:
                await self._one(*reply.items[0])
            elif isinstance(reply, Refused):
                await asyncio.sleep(PAUSE)

    async def _taken(self) -> Reply:
        """Wait for an item; if the line ends in the meantime, an item that arrives is released."""
        work = self._work
        found: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply) -> None:
            if not found.done():
                found.set_result(reply)
            elif isinstance(reply, Taken):
                for item, _ in reply.items:
                    self._release(item)

        withdraw = work.broker.take(Take(work.by, work.row.node, 1, seconds(WAIT)), answer)
        work.takes[self._number] = withdraw
        try:
            return await asyncio.shield(found)
        except asyncio.CancelledError:
            withdraw()
            if found.done():
                answer(found.result())
            found.cancel()
            raise
        finally:
            work.takes.pop(self._number, None)

    async def _one(self, item: Item, payload: bytes) -> None:
        work = self._work
        touching = asyncio.create_task(self._touch(item), name="touching")
        try:
            outcome = await work.pusher.push(work, item, payload)
        except BaseException:
            self._release(item)
            raise
        finally:
            touching.cancel()
        await asyncio.shield(self._settled(item, outcome))

    async def _settled(self, item: Item, outcome: Outcome) -> None:
        work = self._work
        work.brace(outcome)
        settle = self._settle(item, outcome)
        while True:
            reply = await work.broker.handle(settle)
            if not isinstance(reply, Refused) or reply.refusal is not Refusal.STORE_FAILED:
                break
            await asyncio.sleep(PAUSE)
        await work.judged(outcome)

    def _settle(self, item: Item, outcome: Outcome) -> Settle:
        by, node = self._work.by, self._work.row.node
        if outcome.verdict is Verdict.DONE:
            return Settle(by, node, (item.id,), Verb.RETRACT, token=item.token, late=True)
        delays = outcome.verdict in {Verdict.LATER, Verdict.AGAIN}
        delay = seconds(outcome.wait) if delays else None
        return Settle(
            *(by, node, (item.id,), Verb.UNLOCK),
            outcome=ENDINGS[outcome.verdict],
            delay=delay,
            reason=f"push: {outcome.reason}",
            token=item.token,
        )

    def _release(self, item: Item) -> None:
        by, node = self._work.by, self._work.row.node
        settle = Settle(by, node, (item.id,), Verb.UNLOCK, token=item.token)
        self._submit(settle, lambda _reply: None)

    async def _touch(self, item: Item) -> None:
        """Extend the lock while the push lasts."""
        work = self._work
        span = ((item.deadline or 0) - work.broker.now()) / 1000
        while True:
            await asyncio.sleep(max(SOONEST, span / 3))
            touch = Touch(work.by, work.row.node, (item.id,), token=item.token)
            self._submit(touch, lambda _reply: None)


class TopicLine:
    """Pushes the messages of a plain node, in order, from the registration's position on."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def run(self) -> None:
        """Push messages as they arrive."""
        work = self._work
        while not work.is_over.is_set():
            news = asyncio.Event()
            stop = work.broker.new_items.wait(work.row.node, news.set)
            try:
                if not await self._round():
                    async with asyncio.timeout(WAIT):
                        await news.wait()
            except TimeoutError:
                continue
            finally:
                stop()

    async def _round(self) -> bool:
        """Push the existing messages, and return whether there may be more."""
        work = self._work
        read = ReadNewer(work.by, work.row.node, work.row.position, most=10)
        reply = await work.broker.handle(read)
        if not isinstance(reply, NewerItems):
            await asyncio.sleep(PAUSE)
            return True
        for item, payload in reply.items:
            if not await self._one(item, payload):
                return True
        return reply.more

    async def _one(self, item: Item, payload: bytes) -> bool:
        """Push a message, and return whether the next one may follow."""
        work = self._work
        tries = 0
        while tries < TRIES:
            await work.turn(0)
            outcome = await work.pusher.push(work, item, payload)
            work.brace(outcome)
            tries += outcome.verdict is not Verdict.LATER
            is_last = tries >= TRIES or outcome.verdict in {Verdict.DONE, Verdict.BAD}
            await work.judged(outcome, item.seq if is_last else 0)
            if outcome.verdict in FINAL or work.is_over.is_set():
                return False
            if is_last:
                return True
        return True
