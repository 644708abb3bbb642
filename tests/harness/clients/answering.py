"""People who answer each question that they are asked, come back after their server was killed, and remember what they were asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from harness.clients.client import ClientError
from harness.clients.person import Person
from harness.patience import until

if TYPE_CHECKING:
    from types import TracebackType

    from harness.clients.person import Question

RETRY = 10
"""Seconds after which a login that has no answer is begun again."""


class Answering:
    """A person who chooses the first answer to whatever is open, until notified that it is done.

    `asked` counts questions by their round, `again` are those that came although their end was known.
    """

    def __init__(
        self, server: Any, jid: str, *, hesitant: bool = False, has_archive: bool = True
    ) -> None:
        self._server, self._jid, self._has_archive = server, jid, has_archive
        self._may_answer = asyncio.Event()
        if not hesitant:
            self._may_answer.set()
        self.asked: Counter[str] = Counter()
        self.again: list[str] = []
        self._ended: set[str] = set()
        self._seen: set[str] = set()
        self._open: dict[str, Question] = {}
        self.person: Person | None = None

    async def __aenter__(self) -> Self:
        self._living = asyncio.create_task(self._live())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)

    def answer(self) -> None:
        """Answer what is open, and all that comes."""
        self._may_answer.set()
        assert self.person is not None
        for question in self._open.values():
            self._choose(self.person, question)

    async def was_asked(self) -> None:
        """Return when there is something to answer."""
        await until(lambda: self.asked)

    async def is_read(self) -> None:
        """Return when the server has read all that was sent to it: it answers this, and in order."""
        assert self.person is not None
        self.person.client.write("<iq type='get' id='read'><ping xmlns='urn:xmpp:ping'/></iq>")
        await self.person.answered("read")

    def die(self) -> None:
        """Lose the connection, and come back."""
        if self.person is not None:
            self.person.client.reading.cancel()

    async def _live(self) -> None:
        while True:
            person = Person(self._jid, "bot@localhost")
            try:
                async with asyncio.timeout(RETRY):  # the server may have been killed meanwhile
                    await person.client.log_in(self._server.host, self._server.c2s_port, "secret")
                person.be()
                self.person = person
                await self._be_there(person)
            except (OSError, ClientError):  # a timeout too
                pass  # the server is being started
            finally:
                with suppress(AttributeError):  # it was not connected
                    await person.client.abandon()
            await until(lambda: _serves(self._server), every=0.05)

    async def _be_there(self, person: Person) -> None:
        """Answer until the server is gone; first what has no known end: the answer may be lost."""
        works = [
            asyncio.create_task(self._read(person)),
            asyncio.create_task(self._hear(person)),
            asyncio.create_task(self._catch_up(person)),
        ]
        try:
            await asyncio.wait({person.client.reading})
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            while not person.asked.empty():  # it has been received
                self._note_question(person, person.asked.get_nowait())
            while not person.told.empty():
                self._note_text(person.told.get_nowait())

    async def _catch_up(self, person: Person) -> None:
        """Read in the archive what did not arrive, as clients do, and answer what is open."""
        if self._has_archive:
            for message in await person.read_archive():
                if not message.is_asked:
                    self._note_text(message.text)
                else:
                    self._note_question(person, message)
        if self._may_answer.is_set():
            for question in self._open.values():
                self._choose(person, question)

    async def _read(self, person: Person) -> None:
        while True:
            self._note_question(person, await person.asked.get())

    async def _hear(self, person: Person) -> None:
        while True:
            self._note_text(await person.told.get())

    def _note_question(self, person: Person, question: Question) -> None:
        if question.stanza_id in self._seen:  # in the archive, and kept for who was offline
            return
        if question.stanza_id:
            self._seen.add(question.stanza_id)
        name = _round(question)
        self.asked[name] += 1
        if name in self._ended:
            self.again.append(name)
        self._open[name] = question
        if self._may_answer.is_set():
            self._choose(person, question)

    def _note_text(self, text: str) -> None:
        for name, question in list(self._open.items()):
            if question.code in text and "still open" not in text:
                self._ended.add(name)
                del self._open[name]

    @staticmethod
    def _choose(person: Person, question: Question) -> None:
        person.reply(question, "1")  # a text: archives keep it


def _round(question: Question) -> str:
    return question.id.partition(".")[0]


async def _serves(server: Any) -> bool:
    try:
        _, writer = await asyncio.open_connection(server.host, server.c2s_port)
    except OSError:
        return False
    writer.close()
    return True
