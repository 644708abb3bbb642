"""Ensures the schedules that handlers declare: creates those that are missing, and changes those that are otherwise.

Every worker does this when it starts, and most of them find all as it should be. Two that start together may both
create the same schedule: the second is refused, and looks again.

Of several services, a schedule is at that of its group, or of its id if it has no group, as any item is. At the others it is
removed, so that it does not fire twice after the list of services has changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.errors import Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.requests import commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.periodic import Periodic
    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests.commands import Performed
    from pubqueue_xeps.wire.services import Services
    from pubqueue_xeps.worker.queue_session import QueueSession

LOOKS: Final = 3
"""How often a schedule is looked at, if another worker changes it meanwhile."""

NOT_FOUND, TAKEN, FORBIDDEN = "item-not-found", "conflict", "forbidden"


class Schedules:
    """The schedules of one service, as an administrator of it manages them."""

    def __init__(self, session: QueueSession, service: str, timings: Timings) -> None:
        self._session, self._service, self._timings = session, service, timings

    async def ensure(self, tasks: Iterable[Periodic], services: Services) -> None:
        """Make the schedules be as declared, however long the service is away; raise Refused if that is refused."""
        for task in tasks:
            is_here = services.place(task.key) == self._service
            try:
                await (self._ensure(task) if is_here else self._remove(task))
            except Denied as error:
                raise self._refused(task, error.refusal) from None

    async def _ensure(self, task: Periodic) -> None:
        for look in range(1, LOOKS + 1):
            stored = await self.stored(task.id)
            if stored is not None and task.is_as(stored):
                return
            try:
                await self._put(task, is_new=stored is None)
            except Denied as error:
                met_another = TAKEN if stored is None else NOT_FOUND
                if error.refusal.condition != met_another or look == LOOKS:
                    raise
            else:
                return

    async def _remove(self, task: Periodic) -> None:
        """Remove a schedule whose place is another service; one of this id for another node is not ours."""
        stored = await self.stored(task.id)
        if stored is None or stored.get("node") != (task.node,):
            return
        try:
            await self._perform("schedule-remove", {"schedule": (task.id,)})
        except Denied as error:  # another worker was faster
            if error.refusal.condition != NOT_FOUND:
                raise
        else:
            log.info("schedule.removed", id=task.id, node=task.node, service=self._service)

    async def _put(self, task: Periodic, *, is_new: bool) -> None:
        name = {"name" if is_new else "schedule": (task.id,)}
        await self._perform("schedule-add" if is_new else "schedule-change", {**name, **task.words})
        cron, zone = task.words["cron"][0], task.words["zone"][0]
        if is_new:
            log.info("schedule.created", id=task.id, node=task.node, cron=cron, zone=zone)
        else:
            log.info("schedule.changed", id=task.id, node=task.node, cron=cron, zone=zone)

    async def stored(self, name: str) -> Mapping[str, tuple[str, ...]] | None:
        """Return the schedule of this name, or None."""
        try:
            found = await self._perform("schedule-show", {"schedule": (name,)})
        except Denied as error:
            if error.refusal.condition == NOT_FOUND:
                return None
            raise
        return found.rows[0] if found is not None and found.rows else None

    async def _perform(self, name: str, words: Mapping[str, Sequence[str]]) -> Performed | None:
        """Perform an operation, once the service is there; raise Denied for a refusal that lasts."""
        question, failures = commands.perform(name, name, words), 0
        while True:
            await self._session.ready()
            try:
                answer = await self._session.ask(self._service, question, self._timings.answer)
                return commands.read(answer)
            except Unanswered:
                pass
            except Denied as error:
                if not error.refusal.is_transient:
                    raise
            await asyncio.sleep(self._timings.pause(failures))
            failures += 1

    def _refused(self, task: Periodic, refusal: Refusal) -> Refused:
        facts = {"condition": refusal.detail or refusal.condition, "node": task.node}
        account = self._session.jid.partition("/")[0]
        if refusal.condition == FORBIDDEN:
            return Refused(
                f"The handlers declare the schedule {task.id!r}, but {account} is not an administrator of {self._service}, and only those"
                " manage schedules: add it to `admins`, or run the worker with schedules=False or --no-schedules.",
                **facts,
            )
        return Refused(
            f"{self._service} refused the schedule {task.id!r}, which the handlers declare: {refusal.summary}.",
            **facts,
        )
