"""The workers: one process each, whose reports are read, and which is replaced when it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from pubqueue_demo import report
from pubqueue_demo.process import INTERRUPTED, Child, ChildError, spawn
from pubqueue_demo.service import NODE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pubqueue_demo.faults import Faults
    from pubqueue_demo.prosody import Prosody
    from pubqueue_demo.tally import Tally

# How many items a worker holds at a time: enough so that it never waits for the next one.
REQUESTS: Final = 16

# How long a worker that hangs may take to finish after it is asked to stop.
GRACE: Final = 30.0


@dataclass(slots=True)
class Bot:
    """One worker: its current process, and its state."""

    name: str
    password: str
    faults: Faults
    state: str = "starting"
    # items that are begun, but not done, released or lost
    busy: int = 0
    child: Child | None = None


class Workers:
    """All workers of the demo. Run each one's `keep_running` in a task of its own."""

    def __init__(
        self,
        server: Prosody,
        folder: Path,
        *,
        tally: Tally,
        note: Callable[[str], None],
        on_progress: Callable[[], None],
    ) -> None:
        self.bots: list[Bot] = []
        self._server = server
        self._folder = folder
        self._tally = tally
        self._note = note
        self._on_progress = on_progress
        self._ending = False

    @property
    def idle(self) -> bool:
        """Whether every worker is ready and has nothing in hand."""
        return all(bot.state == "working" and bot.busy == 0 for bot in self.bots)

    async def add(self, name: str, password: str, faults: Faults) -> Bot:
        """Create the account of a worker."""
        await self._server.account(name, password)
        bot = Bot(name, password, faults)
        self.bots.append(bot)
        return bot

    async def keep_running(self, bot: Bot) -> None:
        """Run the worker until `stop`; replace it by one without faults if it is killed.

        Raises ChildError if it ends with an error.
        """
        while True:
            code = await self._run(bot)
            if self._ending:
                return
            if code > 0:
                raise ChildError(bot.name, f"ended with status {code}", self._log(bot))
            how = f"was killed ({signal.Signals(-code).name})" if code else "has ended"
            self._note(f"{bot.name} {how}; another takes its place")
            bot.faults = replace(bot.faults, die_at=0, stall_at=0)
            bot.state, bot.busy = "starting", 0

    async def stop(self) -> None:
        """Let every worker finish its items in hand and end."""
        self._ending = True
        await asyncio.gather(*(bot.child.stop(GRACE) for bot in self.bots if bot.child))

    async def _run(self, bot: Bot) -> int:
        bot.child = child = await spawn(
            self._command(bot),
            name=bot.name,
            log=self._log(bot),
            env=os.environ | {"PUBQUEUE_PASSWORD": bot.password},
        )
        try:
            async for line in child.lines():
                self._take(bot, report.read(line))
            return await child.wait()
        finally:
            # it has ended, unless we are interrupted
            await child.stop(INTERRUPTED)

    def _take(self, bot: Bot, line: report.BotLine) -> None:
        match line:
            case report.Ready():
                bot.state = "working"
            case report.Delivered():
                bot.state = "working"
                bot.busy += 1
            case report.Done() | report.Unlocked() | report.Lost():
                bot.busy -= 1
            case report.Stalling(seconds=seconds):
                bot.state = "stalled"
                self._note(f"{bot.name} hangs for {seconds:g} s; items in hand: {bot.busy}")
            case report.ToBeKilled():
                self._note(f"{bot.name} is to be killed; items in hand: {bot.busy}")
                assert bot.child is not None
                bot.child.send(signal.SIGKILL)
            case _:
                bot.state = "working"
        self._tally.add(bot.name, line)
        self._on_progress()

    def _command(self, bot: Bot) -> list[str]:
        options = {
            "service": self._server.component,
            "node": NODE,
            "jid": f"{bot.name}@{self._server.domain}",
            "host": self._server.host,
            "port": self._server.c2s_port,
            "requests": REQUESTS,
            **asdict(bot.faults),
        }
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return [sys.executable, "-Im", "pubqueue_demo.bot", *flags]

    def _log(self, bot: Bot) -> Path:
        return self._folder / f"{bot.name}.log"
