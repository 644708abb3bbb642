"""Publish many items as one: all of them appear together, and each once, however often it is tried."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from xml.etree.ElementTree import Element, SubElement

from slixmpp.exceptions import IqError, IqTimeout

from pubqueue_xeps.errors import NoSuchNode, PubqueueError, Refused, ServiceUnavailable
from pubqueue_xeps.ns import CLIENT, DISCO_INFO, PUBQUEUE, STANZAS
from pubqueue_xeps.xep_0254.queueing import answer, queueing
from pubqueue_xeps.xep_0254.refusal import TRANSIENT, conditions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from slixmpp import ClientXMPP

FEATURE: Final = f"{PUBQUEUE}#transactions"

COMMIT_TIMEOUT: Final = 300
"""Seconds to wait for a commit: it grows with what it commits."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit has come to: items published by it, and items that were there or done before."""

    published: int
    known: int
    already: bool


class Batch:
    """One version of an app's work.

        async with Batch(client, "queue.example.org", app="nightly", version=20261121) as batch:
            await batch.publish("jobs", payload, id="order-17")

    What is published in it is seen by nobody until the end of the block, which commits; then all of it is
    there, in every node. An exception in the block drops it instead. `version` has to rise: one that is
    committed already is skipped, whole, so a program that died may simply be run again. Whether it was
    is `skipped`, and what the commit has come to is `committed`. The app belongs to the account.
    """

    def __init__(self, client: ClientXMPP, service: str, *, app: str, version: int) -> None:
        self.app, self.version = app, version
        self.skipped = False
        self.committed: Committed | None = None
        self._client: Any = client
        self._service = service
        # what an earlier run has left is another attempt: this commit drops it
        self._attempt = secrets.randbits(48)
        self._staged: set[tuple[str, str]] = set()
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        """Make sure that the service knows transactions: another would publish at once.

        Raises ServiceUnavailable or Refused.
        """
        reply = await self._send("get", Element(f"{{{DISCO_INFO}}}query"), 30)
        features = reply.xml.iter(f"{{{DISCO_INFO}}}feature")
        if not any(feature.get("var") == FEATURE for feature in features):
            raise Refused(f"{self._service} does not know transactions.")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or abort if the block has raised."""
        if kind is None:
            await self.commit()
        elif issubclass(kind, Exception):
            try:
                await self.abort()
            except PubqueueError as unheard:
                if problem is not None:
                    problem.add_note(f"What is staged is dropped in time: {unheard}")

    async def publish(
        self,
        node: str,
        payload: Element,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        delay: float | None = None,
        priority: int | None = None,
        ttl: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Stage an item and return its id; the arguments are those of `xep_0254`'s publish.

        The same id again takes the place of the first. Several may be under way at once. Raises
        NoSuchNode or Refused, and ServiceUnavailable also when more waits for commits than may.
        """
        name = id or f"{self.app}-{self.version}-{next(self._numbers)}"
        iq = queueing(self._client).publication(
            *(self._service, node, payload),
            id=name,
            delay=delay,
            priority=priority,
            ttl=ttl,
            headers=headers,
        )
        iq["pubsub"].append(self._mark("txn", attempt=str(self._attempt)))
        reply = await self._answer(iq, 30)
        self._staged.add((node, name))
        self.skipped |= reply.xml.find(f".//{{{PUBQUEUE}}}skipped") is not None
        return name

    async def commit(self) -> Committed:
        """Show what is staged. Said again it does nothing more, so say it again when in doubt."""
        words = self._mark("commit")
        counts = {"n": "0", "attempt": str(self._attempt), "items": str(len(self._staged))}
        SubElement(words, f"{{{PUBQUEUE}}}part", counts)
        reply = await self._send("set", words, COMMIT_TIMEOUT)
        said = reply.xml.find(f"{{{PUBQUEUE}}}committed")
        if said is None:
            raise Refused(f"{self._service} answered the commit with something else.")
        published, known = int(said.get("published", "0")), int(said.get("known", "0"))
        self.committed = Committed(published, known, said.get("already") == "true")
        return self.committed

    async def abort(self) -> None:
        """Drop what is staged; a version that is committed stays."""
        await self._send("set", self._mark("abort"), 30)

    def _mark(self, name: str, **more: str) -> Element:
        words = {"app": self.app, "version": str(self.version)} | more
        return Element(f"{{{PUBQUEUE}}}{name}", words)

    async def _send(self, kind: str, child: Element, timeout: int) -> Any:  # noqa: ANN401, ASYNC109 - slixmpp's
        iq = self._client.Iq(sto=self._service, stype=kind)
        iq.append(child)
        return await self._answer(iq, timeout)

    async def _answer(self, iq: Any, timeout: int) -> Any:  # noqa: ANN401, ASYNC109 - slixmpp's
        try:
            return await answer(iq, timeout)
        except IqTimeout:
            raise ServiceUnavailable(f"{self._service} does not answer.") from None
        except IqError as error:
            raise self._refusal(error.iq.xml) from None

    def _refusal(self, iq: Element) -> PubqueueError:
        why, _ = conditions(iq)
        text = iq.findtext(f"{{{CLIENT}}}error/{{{STANZAS}}}text") or why
        if why == "item-not-found":
            return NoSuchNode(f"{self._service} has no such node.")
        kind = ServiceUnavailable if why in TRANSIENT else Refused
        return kind(f"{self._service} refused version {self.version} of {self.app!r}: {text}.")
