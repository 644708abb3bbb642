"""Publish many items as one: all of them appear together, and each once, however often the publish is repeated."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING, Final, Self

from slixmpp.exceptions import IqError

from pubqueue_xeps.client.ask import ask
from pubqueue_xeps.client.commits import until_done
from pubqueue_xeps.errors import NoSuchNode, OtherId, PubqueueError, Refused, ServiceUnavailable
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.publication import publication
from pubqueue_xeps.wire.requests import pages, publishing, transactions
from pubqueue_xeps.wire.requests.transactions import (
    FEATURE,
    PROGRESS,
    Committed,
    Mark,
    OnTaken,
    Part,
    read_progress,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from xml.etree.ElementTree import Element

    from slixmpp import ClientXMPP

    from pubqueue_xeps.wire.refusals import Refusal
    from pubqueue_xeps.wire.requests import IqRequest
    from pubqueue_xeps.wire.times import When

__all__ = ["Batch", "Committed", "OnTaken"]

TIMEOUT: Final = 30
COMMIT_TIMEOUT: Final = 300
"""Seconds for which a commit may show no progress; of a service that shows none, for the whole of it."""


class Batch:
    """One version of an app's work.

        async with Batch(client, "queue.example.org", app="nightly", version=20261121) as batch:
            await batch.publish("jobs", payload, id="order-17")

    Items published in the block stay invisible until its end, which commits: then all of them appear, in every node. An
    exception in the block drops them instead. `version` has to rise: a version that is already committed is skipped as
    a whole, so a program that died can simply be run again. `skipped` is whether it was, and `committed` is the result
    of the commit. The app belongs to the account.

    An id is taken if its item is locked, or dead with another payload. `on_taken` decides what the commit does then: it
    is refused with an error that names the id (the default), leaves such items out, or moves them to another node.
    `committed` names the first of them.
    """

    def __init__(
        self,
        client: ClientXMPP,
        service: str,
        *,
        app: str,
        version: int,
        on_taken: OnTaken = OnTaken(),  # noqa: B008 - a value
    ) -> None:
        self.app, self.version = app, version
        self.skipped = False
        self.committed: Committed | None = None
        self._on_taken = on_taken
        self._mark = Mark(app, version)
        self._progress = False
        self._client = client
        self._service = service
        # items of an earlier run are another attempt, which this commit drops
        self._attempt = secrets.randbits(48)
        self._staged: set[tuple[str, str]] = set()
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        """Make sure that the service supports transactions: another would publish at once.

        Raises ServiceUnavailable or Refused.
        """
        features = pages.features(await self._ask(pages.request(self._service)))
        if FEATURE not in features:
            raise Refused(f"{self._service} does not know transactions.")
        self._progress = PROGRESS in features
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
        payload: object,
        *,
        id: str | None = None,  # noqa: A002 - the name of the attribute
        delay: When | None = None,
        priority: int | None = None,
        ttl: When | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> str:
        """Stage an item and return its id; the arguments are those of `xep_0254`'s publish.

        An item with an id that is already staged replaces the earlier one. Several tasks may publish at once. Raises
        NoSuchNode or Refused, and ServiceUnavailable also if too much is waiting for commits.
        """
        name = publishing.identified(id) or f"{self.app}-{self.version}-{next(self._numbers)}"
        beside = publishing.beside(delay, priority, ttl, headers, group)
        beside += self._mark.beside(None, self._attempt)
        answer = await self._ask(publication(name, node, payload, beside), node=node, id=name)
        if (other := publishing.other_id(answer, (name,))) is not None:
            raise OtherId(node=node, id=name, other=other)
        self._staged.add((node, name))
        self.skipped |= publishing.skipped(answer)
        return name

    async def commit(self) -> Committed:
        """Commit: make the staged items visible. A second commit changes nothing, so repeat it when in doubt.

        It takes as long as it takes, while the service says that it advances.
        """
        parts = [Part(0, self._attempt, len(self._staged))]
        question = transactions.commit(
            self._mark, parts, None, self._on_taken, progress=self._progress
        )
        answer = await until_done(
            lambda: self._ask(question, timeout=COMMIT_TIMEOUT),
            read_progress,
            patience=COMMIT_TIMEOUT,
        )
        try:
            self.committed = transactions.read_committed(answer)
        except ValueError:
            raise Refused(
                f"{self._service} did not answer with the result of the commit."
            ) from None
        return self.committed

    async def abort(self) -> None:
        """Drop the items that this batch has staged; a committed version stays."""
        staged = [Part(0, self._attempt, len(self._staged))]
        await self._ask(transactions.abort(self._mark, staged))

    async def _ask(
        self,
        question: IqRequest,
        *,
        timeout: int = TIMEOUT,  # noqa: ASYNC109 - that of `ask`
        node: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the attribute
    ) -> Element:
        try:
            return await ask(self._client, self._service, question, timeout)
        except IqError as error:
            raise self._failure(refusals.read(error.iq.xml), node, id) from None

    def _failure(self, refusal: Refusal, node: str | None, name: str | None) -> PubqueueError:
        facts = {"condition": refusal.detail or refusal.condition, "node": node, "id": name}
        if refusal.condition == "item-not-found":
            return NoSuchNode(f"{self._service} has no such node.", **facts)
        kind = ServiceUnavailable if refusal.is_transient else Refused
        return kind(f"{self._service} refused {self._mark}: {refusal.summary}.", **facts)
