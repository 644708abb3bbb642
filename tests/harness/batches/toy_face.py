"""A face in a hundred and fifty lines, made as CONTRIBUTING.md says: a line protocol of three requests.

`PUT node id text` publishes, `TAKE node window` subscribes, `DONE node id` retracts. A line that is connected
has the address `name@service/line.INSTANCE.N`: a connection of an account of the service itself.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from harness.patience import TIMEOUT

from pubqueue.app.watch.watching import Traffic
from pubqueue.core import addresses
from pubqueue.core.decision import Refused
from pubqueue.core.model import Draft, ItemId, Jid, NodeName, Principal
from pubqueue.core.nodes.subscriptions.subscribe import Options, Subscribe
from pubqueue.core.notices import (
    Announce,
    Configured,
    Deleted,
    Deliver,
    Purged,
    Retracted,
    Unlocked,
    singly,
)
from pubqueue.core.queue.expire import Departure, Leave
from pubqueue.core.queue.publication import Publish
from pubqueue.core.queue.settle import Settle, Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.app.broker import Broker
    from pubqueue.core.decision import Reply
    from pubqueue.core.notices import Notice, ToEach

WORD: Final = "line"
"""What the resources of its addresses begin with."""
SERVICE: Final = Jid("queue.example.org")
TEXT: Final = "{urn:example:line}text"
MAX_LENGTH: Final = 1023
"""Bytes of a name, which other faces have to be able to say."""


class Connection:
    """A client that is connected: what it says goes to the face, what it hears waits here."""

    def __init__(self, face: LineFace, address: Jid) -> None:
        self.address = address
        self.is_full = False
        """Whether it does not read what was sent, so that no more is sent."""
        self._face = face
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self.on_words: Callable[[str], None] = self._heard.put_nowait
        """What takes the words that come; without another they wait for `hear`."""

    def say(self, words: str) -> None:
        self._face.take(self, words)

    def send(self, words: str) -> None:
        self.on_words(words)

    async def hear(self) -> str:
        """Return the next line, once it is there."""
        async with asyncio.timeout(TIMEOUT):
            return await self._heard.get()

    def rest(self) -> list[str]:
        """Return what is there and was not heard yet."""
        return [self._heard.get_nowait() for _ in range(self._heard.qsize())]


class LineFace:
    """Serves lines; `go_up` and `go_down` are what happens to its socket."""

    def __init__(
        self, broker: Broker, on_ready: Callable[[], None] = lambda: None, service: Jid = SERVICE
    ) -> None:
        self._broker, self._service = broker, service
        self._on_ready = on_ready
        self._lines: dict[Jid, Connection] = {}
        self._count, self._connections = itertools.count(1), itertools.count(1)
        self._up = False
        self.traffic = Traffic()
        broker.outbox.attach(self)

    # --- started and stopped by the wiring ---

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """There is a place for everybody."""

    async def check(self, _patience: float) -> str:
        return "lines: good"

    async def run(self) -> None:
        self.go_up()
        self._on_ready()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        self.go_down()
        await self._broker.settled()

    def go_up(self) -> None:
        self._up = True
        self._broker.outbox.set_up(self, up=True)

    def go_down(self) -> None:
        self._up = False
        self._broker.outbox.set_up(self, up=False)

    # --- in: words to requests ---

    def connect(self, name: str) -> Connection:
        """Take a line of the account of this name."""
        account = Jid(f"{name}@{self._service}")
        number = self._broker.instance.number
        at = addresses.Connection(account, WORD, number, str(next(self._connections)))
        line = self._lines[at.address] = Connection(self, at.address)
        return line

    def hang_up(self, line: Connection, how: Departure = Departure.CLOSED) -> None:
        """End a line that says so itself, or one that broke."""
        del self._lines[line.address]
        self._broker.submit(Leave(line.address, how=how), lambda _reply: None)

    def fill(self, line: Connection, *, full: bool) -> None:
        """Let a line read no more, or again."""
        line.is_full = full
        self._broker.outbox.reach_changed(line.address)

    def take(self, line: Connection, words: str) -> None:
        verb, *parts = words.split(" ", 3)
        count, read = READERS.get(verb, (-1, _done))
        if len(parts) != count or not _fit(parts):
            line.send("NO WORDS")
            return
        request = read(Principal(line.address), next(self._count), *parts)
        self._broker.submit(request, partial(self._answer, line))

    def _answer(self, line: Connection, reply: Reply) -> None:
        line.send(f"NO {reply.refusal.name}" if isinstance(reply, Refused) else "OK")

    # --- out: notices to words ---

    def claims(self, address: Jid) -> bool:
        found = addresses.connection(address, self._service)
        return found is not None and found.word == WORD

    def reaches(self, address: Jid) -> bool:
        line = self._lines.get(address)
        return self._up and line is not None and not line.is_full

    def speak(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        return [notice for notice in singly(notices) if not self._say(notice)]

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        call()

    def _say(self, notice: Notice) -> bool:
        line = self._lines.get(notice.to)
        if line is None or not self._up:
            return False
        line.send(_words(notice))
        return True


def _fit(parts: Sequence[str]) -> bool:
    """Say whether every face can say this: names of a bounded length, and no control characters in XML."""
    return all(part.isprintable() for part in parts) and all(
        0 < len(part.encode()) <= MAX_LENGTH for part in parts[:2]
    )


def _put(by: Principal, _number: int, node: str, item: str, text: str) -> Publish:
    payload = f'<text xmlns="urn:example:line">{escape(text)}</text>'.encode()
    return Publish(by, NodeName(node), (Draft(ItemId(item), payload, type="urn:example:line"),))


def _take(by: Principal, number: int, node: str, window: str) -> Subscribe:
    subid = f"{by.jid}-{number}"  # unique in the store, whichever instance makes it
    return Subscribe(by, NodeName(node), by.jid, subid, Options(window))


def _done(by: Principal, _number: int, node: str, item: str) -> Settle:
    return Settle(by, NodeName(node), (ItemId(item),), Verb.RETRACT)


READERS: Final[dict[str, tuple[int, Callable[..., Publish | Subscribe | Settle]]]] = {
    "PUT": (3, _put),
    "TAKE": (2, _take),
    "DONE": (2, _done),
}
"""How many words follow a verb, and what makes a request of them."""


def _words(notice: Notice) -> str:
    match notice:
        case Deliver():
            return f"ITEM {notice.item.node} {notice.item.id} {_text(notice.payload)}"
        case Announce(draft=None):
            return f"NEWS {notice.node}"
        case Announce(draft=draft):
            return f"NEWS {notice.node} {draft.id} {_text(draft.payload)}"
        case Configured():
            return f"OTHER {notice.node}"
        case Retracted():
            return f"GONE {notice.node} {' '.join(notice.ids)}"
        case Unlocked():
            return f"LOST {notice.node} {' '.join(notice.ids)}"
        case Purged():
            return f"EMPTY {notice.node}"
        case Deleted():
            return f"CLOSED {notice.node}"
        case _:
            assert_never(notice)


def _text(payload: bytes) -> str:
    """Return the text that a line has put; what another protocol published, as the XML that it is."""
    root = ET.fromstring(payload)
    return (root.text or "") if root.tag == TEXT else payload.decode()
