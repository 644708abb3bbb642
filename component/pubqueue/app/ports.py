"""The seams of the shell: what a store promises, and what a face does with notices.

A store holds facts and never judges. Everything inside a batch is synchronous and runs on the store's
own thread; a batch is one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from pubqueue.app.history_ports import History
    from pubqueue.app.txn_ports import Staging
    from pubqueue.core.changes import Change
    from pubqueue.core.decision import Notice
    from pubqueue.core.model import (
        Affiliation,
        Death,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Subscription,
    )

T = TypeVar("T")


class StoreError(Exception):
    """The store could not do its work; nothing of the batch has happened."""


class StaleError(StoreError):
    """A change found something else than its rule believed; it was not made."""


class ForeignStoreError(StoreError):
    """What is at the store's address is not a store of ours, or cannot be used."""


class Transaction(Protocol):
    """One transaction: the facts of this moment, and the changes made to them."""

    @property
    def staging(self) -> Staging:
        """What waits for a commit of its publisher's."""

    @property
    def history(self) -> History:
        """The event log, and pages of items and nodes."""

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo what happens inside, and only that, when it raises."""

    # --- nodes ---

    def node(self, name: NodeName) -> Node | None:
        """Return the node."""

    def nodes(self) -> list[Node]:
        """Return every node, by name."""

    def ready_nodes(self) -> list[NodeName]:
        """Return the nodes that have both something to hand out and a window for it."""

    def affiliation(self, node: NodeName, account: Jid) -> Affiliation:
        """Return what the bare JID is to the node."""

    def affiliations(self, node: NodeName) -> list[tuple[Jid, Affiliation]]:
        """Return everybody who is something to the node, by JID."""

    # --- subscriptions ---

    def subscription(self, node: NodeName, jid: Jid) -> Subscription | None:
        """Return the subscription of exactly this JID."""

    def subscribed(self, node: NodeName, account: Jid) -> bool:
        """Say whether any JID of the account subscribes to the node."""

    def subscribers(self, node: NodeName) -> list[Subscription]:
        """Return every subscription to the node."""

    def open_windows(self, node: NodeName) -> list[Subscription]:
        """Return the subscriptions that could be handed something."""

    def subscriptions_of(self, jids: Iterable[Jid]) -> list[Subscription]:
        """Return the subscriptions of exactly these JIDs, to any node."""

    def subscriptions_of_account(self, account: Jid) -> list[Subscription]:
        """Return the subscriptions of all JIDs of the account, to any node, by node and JID."""

    def resources(self, account: Jid) -> list[Jid]:
        """Return the full JIDs of the account that are known to be here."""

    # --- items ---

    def item(self, node: NodeName, item: ItemId) -> Item | None:
        """Return the item, without its payload."""

    def item_at(self, seq: int) -> Item | None:
        """Return the item with this sequence number."""

    def item_ids(self, node: NodeName, limit: int) -> list[ItemId]:
        """Return the ids of the node's oldest items."""

    def payload(self, item: Item) -> bytes:
        """Return the payload as it was published."""

    def held(self, item: Item, jids: Sequence[Jid]) -> list[Jid]:
        """Return those of the JIDs that once held the item and lost it."""

    def finished(self, node: NodeName, item: ItemId, now: Millis) -> bytes | None:
        """Return the digest of finished work whose id still absorbs a re-publish."""

    def held_by(self, jids: Sequence[Jid]) -> list[Item]:
        """Return the items locked to exactly these JIDs, in any node."""

    def held_count(self, node: NodeName, jid: Jid) -> int:
        """Return how many items of the node are locked to this JID."""

    def ready(
        self, node: NodeName, now: Millis, limit: int, octets: int
    ) -> list[tuple[Item, bytes]]:
        """Return the next items to hand out, with their payloads: no more when these are so many bytes."""

    def aside(
        self, node: NodeName, now: Millis, limit: int, octets: int
    ) -> list[tuple[Item, bytes]]:
        """Return items that are delayed only for the one they avoid, within the same bounds."""

    def dead(self, node: NodeName, limit: int) -> list[tuple[Item, NodeName | None]]:
        """Return items that died here, or came here dead, each with the node it came from."""

    def origin(self, item: Item) -> NodeName | None:
        """Return the node that a dead item came from, if it came from another."""

    def oldest(
        self, node: NodeName, holders: Sequence[Jid] | None, after: int, limit: int
    ) -> list[tuple[Item, bytes]]:
        """Return items with payloads, oldest first: behind a sequence number, of these holders."""

    def newest(
        self, node: NodeName, holders: Sequence[Jid] | None, limit: int
    ) -> list[tuple[Item, bytes]]:
        """Return the last items with payloads, oldest first, of these holders."""

    def deaths(self, node: NodeName, first: Item, last: Item) -> list[Death]:
        """Return what is kept of the dead among the node's items from `first` to `last`."""

    # --- time ---

    def ripe(self, now: Millis) -> list[NodeName]:
        """Return the nodes with delayed items whose time has come."""

    def expired_locks(self, now: Millis, limit: int) -> list[Item]:
        """Return locked items whose deadline has come, the oldest deadline first."""

    def locks_beyond(self, node: NodeName, moment: Millis) -> list[Item]:
        """Return the node's locked items whose deadline is later than that, the nearest first."""

    def expired_lives(self, now: Millis, limit: int) -> list[Item]:
        """Return items that nobody holds and whose time to live has ended."""

    def next_moment(self) -> Millis | None:
        """Return when the next lock, pause or life ends."""

    def tokens(self, count: int) -> int:
        """Reserve so many lock tokens, all higher than any before, and return the first."""

    # --- changes ---

    def apply(self, changes: Sequence[Change]) -> None:
        """Make the changes in order, or raise StaleError and leave the rest to the caller's undo."""


class Store(Protocol):
    """A place that keeps what it has confirmed, whatever happens to the process or the machine."""

    async def open(self) -> None:
        """Make ready, on the newest schema.

        Raises:
            ForeignStoreError: what is there is not ours, is newer than this program, or is unusable.

        """

    async def close(self) -> None:
        """Let go of everything; closing twice does no harm."""

    async def batch(self, job: Callable[[Transaction], T]) -> T:
        """Run the job in one transaction and return its result once it is safely on disk.

        Raises:
            StoreError: the transaction could not be made durable; nothing of it has happened.

        """

    async def others_wrote(self) -> bool:
        """Say whether another process has changed the store since the last call.

        Raises:
            StoreError: the store cannot say.

        """

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Run the job on what is committed by now, beside the batches; it changes nothing.

        Raises:
            StoreError: the store could not be read.

        """


class Speaker(Protocol):
    """A face's mouth."""

    def speak(self, notices: Sequence[Notice]) -> Sequence[Notice]:
        """Send the notices, in order, and return those that could not be sent."""
