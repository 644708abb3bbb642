"""A face in miniature, made as described in CONTRIBUTING.md: it has everything that a protocol needs whose clients log in here.

A connected line has the address `name@service/line.INSTANCE.N`: a connection of an account of the service itself. Its words are
in `toy_words.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.batches.toy_words import READERS, done, fits, refusal, shown, words_of
from harness.patience import TIMEOUT

from pubqueue.accounts.accounts import Proven
from pubqueue.accounts.credentials import Plain
from pubqueue.engine.observe import Traffic
from pubqueue.model import entities
from pubqueue.model.decision import Refused, Taken
from pubqueue.model.entities import Jid, Principal
from pubqueue.model.notices import singly
from pubqueue.rules.presence import Departure, Leave

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.engine.broker import Broker
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import NodeName
    from pubqueue.model.notices import Notice, ToEach

WORD: Final = "line"
"""The prefix of the resources of its addresses."""
SERVICE: Final = Jid("queue.example.org")


class Connection:
    """A connected client: its lines go to the face, and lines for it wait here."""

    def __init__(self, face: LineFace, address: Jid, proven: Proven | None = None) -> None:
        self.address, self.proven = address, proven
        self.is_full = False
        """Whether it does not read its lines, so that no more are sent."""
        self._face = face
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self.on_words: Callable[[str], None] = self._heard.put_nowait
        """Receives the lines; without it they wait for `hear`."""

    def say(self, words: str) -> None:
        self._face.take(self, words)

    def send(self, words: str) -> None:
        self.on_words(words)

    async def hear(self) -> str:
        """Return the next line, once it has arrived."""
        async with asyncio.timeout(TIMEOUT):
            return await self._heard.get()

    def rest(self) -> list[str]:
        """Return the waiting lines that were not read yet."""
        return [self._heard.get_nowait() for _ in range(self._heard.qsize())]


class LineFace:
    """Serves lines; `go_up` and `go_down` simulate its socket."""

    def __init__(
        self,
        broker: Broker,
        on_ready: Callable[[], None] = lambda: None,
        service: Jid = SERVICE,
        accounts: Accounts | None = None,
    ) -> None:
        self._broker, self._service, self.accounts = broker, service, accounts
        if accounts is not None:
            accounts.watch(self._end_those_who_are_gone)
        self._on_ready = on_ready
        self._lines: dict[Jid, Connection] = {}
        self._count, self._connections = itertools.count(1), itertools.count(1)
        self._up = False
        self.traffic = Traffic()
        broker.outbox.attach(self)

    # --- started and stopped by the wiring ---

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        """There is room for every instance."""

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

    async def log_in(self, name: str, password: str, peer: str) -> Connection | str:
        """Return a line for this user, or the refusal: the same for a wrong name and a wrong password."""
        assert self.accounts is not None
        found = await self.accounts.prove(Plain(name, password), face=WORD, peer=peer)
        if isinstance(found, Proven):
            return self.connect(found.name, found)
        return "NO LATER" if found.wait else "NO LOGIN"

    def _end_those_who_are_gone(self) -> None:
        """End the lines of users that were removed, or have another password."""
        for line in tuple(self._lines.values()):
            if not self._holds(line):
                line.send("NO LOGIN")
                self.hang_up(line)

    def _holds(self, line: Connection) -> bool:
        if self.accounts is None or line.proven is None:
            return True
        return self.accounts.holds(line.proven)

    def connect(self, name: str, proven: Proven | None = None) -> Connection:
        """Take a line of the account of this name."""
        account = Jid(f"{name}@{self._service}")
        number = self._broker.instance.number
        name = self._broker.new_name(next(self._connections))
        at = entities.Connection(account, WORD, number, name)
        line = self._lines[at.address] = Connection(self, at.address, proven)
        return line

    @property
    def lines(self) -> list[Connection]:
        """The connected lines."""
        return list(self._lines.values())

    def hang_up(self, line: Connection, how: Departure = Departure.CLOSED) -> None:
        """End a line that ends itself, or one that broke."""
        del self._lines[line.address]
        self._broker.submit(Leave(line.address, how=how), lambda _reply: None)

    def fill(self, line: Connection, *, full: bool) -> None:
        """Let a line stop reading, or resume."""
        line.is_full = full
        self._broker.outbox.reach_changed(line.address)

    def take(self, line: Connection, words: str) -> None:
        verb, *parts = words.split(" ", 3)
        count, read = READERS.get(verb, (-1, done))
        if len(parts) != count or not fits(parts):
            line.send("NO WORDS")
            return
        try:
            request = read(self._principal(line.address), next(self._count), *parts)
        except ValueError:
            line.send("NO WORDS")
            return
        begin = partial(self._broker.submit_for, request.by, request, partial(self._answer, line))
        if self._broker.admission.may_enter(request.by):
            begin()
        else:
            self._broker.admission.wait(request.by, begin)

    def _principal(self, address: Jid) -> Principal:
        return Principal(address) if self.accounts is None else self.accounts.principals.of(address)

    def _answer(self, line: Connection, reply: Reply) -> None:
        if isinstance(reply, Taken):
            for item, payload in reply.items:
                line.send(f"BODY {item.node} {item.id} {shown(payload, item.headers)}")
            line.send(f"OK {' '.join(item.id for item, _ in reply.items)}".rstrip())
            return
        if isinstance(reply, Refused):
            self._broker.admission.refused(self._principal(line.address))
        line.send(refusal(reply) if isinstance(reply, Refused) else "OK")

    # --- out: notices to words ---

    largest = 10 << 20

    def claims(self, address: Jid) -> bool:
        found = entities.connection(address, self._service)
        return found is not None and found.word == WORD

    def reaches(self, address: Jid) -> bool:
        line = self._lines.get(address)
        return self._up and line is not None and not line.is_full

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        return [notice for notice in singly(notices) if not self._say(notice)]

    def when_sent(self, node: NodeName, call: Callable[[], None]) -> None:
        call()

    def _say(self, notice: Notice) -> bool:
        line = self._lines.get(notice.to)
        if line is None or not self._up:
            return False
        line.send(words_of(notice))
        return True
