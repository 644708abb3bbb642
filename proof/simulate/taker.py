"""A worker without a subscription: it takes items, a few at a time, and waits if there are none."""

from __future__ import annotations

from typing import Final

from harness.batches.facts import who

from proof.simulate.worker import Worker
from pubqueue.model.decision import Taken
from pubqueue.model.entities import seconds
from pubqueue.rules.presence import Arrive
from pubqueue.rules.take import Take

WAIT: Final = seconds(3)
"""How long a take waits: less than an answer is waited for."""


class Taker(Worker):
    """Takes up to a window of items, and takes again when they are done. What was left unsaid by an instance comes by itself."""

    async def live(self) -> None:
        """Take, again and again."""
        self._held.clear()
        self._settled.clear()
        self._unsure.clear()
        self.connected()
        while True:
            reply = await self.ask(Take(who(self.jid), self._node, self._window, WAIT))
            if isinstance(reply, Taken):
                for item, payload in reply.items:
                    self.take(item.id, item.token, payload)
            await self.pause(1)

    def connected(self) -> None:
        """Say that it is there."""
        self.say(Arrive(self.jid))
