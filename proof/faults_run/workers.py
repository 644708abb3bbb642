"""The workers: one process each, replaced when killed, of XMPP and of other protocols."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.patience import until

from pubqueue_demo.process import Child, ChildError, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.servers.ejabberd import Ejabberd

    from proof.faults_run.notes import Notes
    from proof.faults_run.plan import Plan
    from pubqueue_demo.prosody import Prosody

ROOT: Final = Path(__file__).parents[2]
PASSWORD: Final = "work"
GRACE: Final = 20.0
LOOK: Final = 0.01
"""Seconds for a worker to end in order, and between two looks at whether it runs."""


class Workers:
    """All workers of a run; `keep_running` each in a task of its own."""

    def __init__(self, server: Prosody | Ejabberd, plan: Plan, notes: Notes) -> None:
        self.names = [f"bee{number}" for number in range(plan.workers)]
        """The accounts of those of XMPP."""
        self._server, self._plan, self._notes = server, plan, notes
        self._places: Mapping[str, Sequence[str]] = {}
        self._children: dict[str, Child] = {}
        self._ending = False

    def serve(self, places: Mapping[str, Sequence[str]]) -> None:
        """Have a worker of each of these protocols as well, that finds the service at these places."""
        self._places = places

    @property
    def all(self) -> list[str]:
        """The names of all of them."""
        return [*self.names, *self._places]

    async def keep_running(self, name: str) -> None:
        """Run the worker until `stop`; who was killed is replaced under the same address."""
        while not self._ending:
            log = self._notes.folder / f"{name}.log"
            child = self._children[name] = await spawn(
                self._command(name),
                name=name,
                log=log,
                env={**os.environ, "PUBQUEUE_PASSWORD": PASSWORD},
                cwd=ROOT,
                read=False,
            )
            if self._ending:  # who stops the others has not seen this one
                await child.stop(GRACE)
            code = await child.wait()
            # asked to end before it listens, it ends all the same
            expected = {0, -signal.SIGTERM} if self._ending else set()
            if code not in expected | {-signal.SIGKILL}:
                raise ChildError(name, f"ended with status {code}", log)

    async def kill(self, name: str) -> None:
        """Kill the worker, once it is there."""
        (await self._alive(name)).send(signal.SIGKILL)

    async def stall(self, name: str, seconds: float) -> None:
        """Stop the worker where it is, connection and locks and all, and let it go on later."""
        child = await self._alive(name)
        child.send(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        child.send(signal.SIGCONT)  # who was killed meanwhile is gone, stopped or not

    async def stop(self) -> None:
        """Let every worker finish what it has in hand, and end."""
        self._ending = True
        await asyncio.gather(*(child.stop(GRACE) for child in self._children.values()))

    async def _alive(self, name: str) -> Child:
        """Return the worker when it runs: it may just be being replaced."""

        def running() -> Child | None:
            child = self._children.get(name)
            return child if child and child.running else None

        found: Child = await until(running, every=LOOK, within=None)
        return found

    def _command(self, name: str) -> list[str]:
        if name in self._places:
            words = [f"--place={place}" for place in self._places[name]]
            module = f"proof.faults_run.over_{name}"
            return [sys.executable, "-m", module, *words, f"--history={self._notes.path(name)}"]
        options = {
            "jid": f"{name}@{self._server.domain}/run",
            "service": self._server.component,
            "host": self._server.host,
            "port": self._server.c2s_port,
            "requests": self._plan.requests,
            "history": self._notes.path(name),
        }
        if self._plan.level:
            options["level"] = self._plan.level
        flags = [f"--{option}={value}" for option, value in options.items()]
        return [sys.executable, "-m", "proof.faults_run.worker", *flags]
