"""The bot among people: its presence, theirs, the rooms that it is in, the messages that it sends and receives.

Only what comes from those whom it asks is read: all else is dropped, and neither answered nor logged with its text.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from slixmpp.jid import JID, InvalidJID

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.client.connection_keeper import PING_SERVER, ConnectionKeeper
from pubqueue_xeps.errors import Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.people import stanzas
from pubqueue_xeps.people.questions import message_id
from pubqueue_xeps.people.stanzas import IQ, MESSAGE, PRESENCE, ROOM
from pubqueue_xeps.people.turns import Presences
from pubqueue_xeps.wire.ns import DISCO_INFO

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.connection import Connection
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.people.answers import Heard
    from pubqueue_xeps.people.stanzas import Subject

MAX_CLIENTS: Final = 50
"""Clients of one person, and of one room's members, that are remembered."""
MAX_OCCUPANTS: Final = 1000
MAX_HEARD: Final = 2000
"""Messages that are remembered, because the archive may have them too."""
MAX_STRANGERS: Final = 100
"""Strangers that are logged, each once."""
MAX_PAGES: Final = 20
"""Pages of the archive that are read of a conversation."""

NON_ANONYMOUS: Final = "100"
SELF: Final = "110"


@dataclass(slots=True)
class Occupant:
    """An occupant of a room: the real bare JID, and whether it is a member."""

    real: str
    member: bool
    available: bool


@dataclass(slots=True)
class Place:
    """A room, as the bot sees it."""

    jid: str
    entered: asyncio.Future[None]
    inside: bool = False
    occupants: dict[str, Occupant] = field(default_factory=dict)


class Chat:
    """Talks to people and rooms; `hear` gets what they say, `changed` is called when it may be another who can be asked.

    Names of those who are asked are bare JIDs, those of rooms with `room:` before them. `bounced` gets the id of a message that
    could not be delivered, and to whom. `returned` is called when the bot is available again after its connection was lost: what
    was said meanwhile may be in the archive alone.
    """

    def __init__(
        self,
        connection: Connection,
        timings: Timings,
        asked: Iterable[str],
        *,
        hear: Callable[[Heard], None],
        placed: Callable[[str, str], None],
        bounced: Callable[[str, str], None],
        changed: Callable[[], None],
        returned: Callable[[], None],
    ) -> None:
        self._account, self._timings = connection.account, timings
        self.keeper = ConnectionKeeper(connection, timings)
        self.keeper.listen, self.keeper.on_session = self._read, self._session_started
        self._hear, self._placed, self._bounced = hear, placed, bounced
        self._changed, self._returned = changed, returned
        loop = asyncio.get_running_loop()
        names = tuple(asked)
        self._people = {one: Presences() for one in names if not one.startswith(ROOM)}
        self._rooms = {
            one.removeprefix(ROOM): Place(one.removeprefix(ROOM), loop.create_future())
            for one in names
            if one.startswith(ROOM)
        }
        self._nick = str(JID(connection.account).local)
        self._caps: dict[str, str] = {}
        self._forms: dict[str, bool] = {}
        self._announced = False
        self._heard: OrderedDict[tuple[object, ...], bool] = OrderedDict()
        """With whether the archive had it first."""
        self._strangers: set[str] = set()
        self._queries: dict[str, list[tuple[Element, float]]] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self.has_archive: bool | None = None
        """Whether the account has an archive; None until it was asked in this session."""

    # Coming and going.

    async def open(self) -> None:
        """Log in. People see nothing of it before `announce`."""
        await self.keeper.open()

    async def close(self) -> None:
        """Log out."""
        for task in (ended := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        await self.keeper.close()

    async def announce(self) -> None:
        """Become available, ask people for their presence, and enter the rooms; from now on messages come.

        Raises Refused for a room that lets no one in, or does not show who is in it.
        """
        self._announced = True
        await self._appear()
        for place in self._rooms.values():
            try:
                async with asyncio.timeout(self._timings.login):
                    await asyncio.shield(place.entered)
            except TimeoutError:
                raise Refused(f"The room {place.jid} does not answer.") from None

    async def _appear(self) -> None:
        await self.keeper.ready()
        contacts: dict[str, str] = {}
        with suppress(Denied, Unanswered):  # then all are asked: once too often does no harm
            wanted = stanzas.ROSTER_WANTED
            answer = await self.keeper.ask(self._account, wanted, self._timings.answer)
            contacts = stanzas.subscriptions(answer)
        self.keeper.send(stanzas.presence())
        for person in self._people:
            if contacts.get(person) not in ("to", "both"):
                self.keeper.send(stanzas.presence(person, "subscribe"))
        for place in self._rooms.values():
            self.keeper.send(stanzas.entering(place.jid, self._nick))
        with suppress(Denied, Unanswered):  # what was kept for the bot comes before this answer
            server = str(JID(self._account).domain)
            await self.keeper.ask(server, PING_SERVER, self._timings.answer)

    async def _appear_again(self) -> None:
        await self._appear()
        self._returned()

    def _session_started(self) -> None:
        for presences in self._people.values():
            presences.clients.clear()
        for place in self._rooms.values():
            place.inside = False
            place.occupants.clear()
        self._forms.clear()
        self._caps.clear()
        self.has_archive = None  # the server may be another than before
        self._changed()
        if self._announced:
            self._begin(self._appear_again())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("people.failed", why=str(error), error=type(error).__name__)

    # Who is there.

    def is_available(self, name: str) -> bool:
        """Return whether a person, or a member in a room, can be asked now."""
        if not name.startswith(ROOM):
            return self._people[name].available
        place = self._rooms[name.removeprefix(ROOM)]
        return place.inside and any(
            one.member and one.available for one in place.occupants.values()
        )

    def _shows_forms(self, name: str) -> bool:
        clients = () if name.startswith(ROOM) else self._people[name].clients
        return any(self._forms.get(one, False) for one in clients)

    # What is sent.

    async def ask(
        self, name: str, round_id: str, part: object, body: str, choices: tuple[str, ...]
    ) -> bool:
        """Send a question, as `say` does."""
        form = name in self._people and self._shows_forms(name)
        return await self._sent(stanzas.question(name, round_id, part, body, choices, form=form))

    async def say(self, name: str, round_id: str, part: object, body: str) -> bool:
        """Send a message once there is a connection; return whether the server is known to have it.

        It is if it has answered what was sent behind the message: a server reads what a client sends in order.
        """
        about = message_id(round_id, part)
        return await self._sent(stanzas.message(name, about, body, round_id))

    async def _sent(self, stanza: bytes) -> bool:
        await self.keeper.ready()
        if not self.keeper.send(stanza):
            return False
        server = str(JID(self._account).domain)
        try:
            await self.keeper.ask(server, PING_SERVER, self._timings.answer)
        except Unanswered:
            return False
        except Denied:
            pass  # an answer too
        return True

    # What was said before: the archive.

    async def was_sent(self, name: str, round_id: str, since: float) -> bool | None:
        """Return whether the archive has the question; None if it cannot be known."""
        if name.startswith(ROOM):
            return None
        found = await self._conversation(name, since)
        if found is None:
            return None
        prefix = f"{round_id}."
        return any(stanza.get("id", "").startswith(prefix) for stanza, _ in found)

    async def catch_up(self, name: str, since: float) -> None:
        """Receive what a person has said since then, while no one listened, according to the archive.

        What names no question counts only if it was said after all that the bot has said: the rest was received.
        """
        found = None if name.startswith(ROOM) else await self._conversation(name, since)
        if not found:
            return
        ours = [number for number, (one, _) in enumerate(found) if self._is_ours(one)]
        last = ours[-1] if ours else -1
        for number, (stanza, at) in enumerate(found):
            heard = stanzas.read_message(stanza, name, at)
            heard = replace(heard, at=at, stamped=True, archived=True)
            if number in ours or _same(heard) in self._heard:
                continue
            named = heard.action or heard.form or heard.reply_to or heard.reaction_to
            if named or number > last:
                self._note_heard(heard)

    def _is_ours(self, stanza: Element) -> bool:
        return _bare(stanza.get("from", "")) == self._account

    async def _conversation(self, name: str, since: float) -> list[tuple[Element, float]] | None:
        """Return the messages from and to a person since then, in order; None without an archive. One that is silent is asked again."""
        start = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        while self.has_archive is not False:
            try:
                return await self._pages(name, start)
            except Denied:
                self.has_archive = False
            except Unanswered:
                log.warning("people.archive_silent", to=name)
        return None

    async def _pages(self, name: str, start: str) -> list[tuple[Element, float]]:
        query, after = f"people-{secrets.token_hex(4)}-{next(self._numbers)}", None
        found = self._queries[query] = []
        try:
            for _ in range(MAX_PAGES):
                await self.keeper.ready()
                wanted = stanzas.archive_wanted(query, name, start, after)
                answer = await self.keeper.ask(self._account, wanted, self._timings.answer)
                self.has_archive = True
                after, is_last = stanzas.page_end(answer)
                if is_last:
                    return found
        finally:
            del self._queries[query]
        log.warning("people.archive_long", to=name, read=len(found))
        return found

    # What arrives.

    def _read(self, stanza: Element) -> bool:
        """Read a stanza; return False for what is none of ours."""
        if stanza.tag == MESSAGE:
            self._read_message(stanza)
            return True
        if stanza.tag == PRESENCE:
            self._read_presence(stanzas.read_presence(stanza))
            return True
        asks = stanza.tag == IQ and stanza.get("type") == "get"
        if asks and stanza.find(f"{{{DISCO_INFO}}}query") is not None:
            is_known = _bare(stanza.get("from", "")) in self._people
            return is_known and self.keeper.send(stanzas.information(stanza))
        return False

    def _read_message(self, stanza: Element) -> None:
        sender = stanza.get("from", "")
        bare = _bare(sender)
        if bare in ("", self._account):
            self._read_archived(stanza)
            return
        if stanza.get("type") == "error":
            name = bare if bare in self._people else f"{ROOM}{bare}"
            if name in self._people or bare in self._rooms:
                self._bounced(stanza.get("id", ""), name)
            return
        if bare in self._rooms:
            if stanza.get("type") == "groupchat":
                self._read_in_room(stanza, self._rooms[bare], sender)
            return  # what is whispered in a room is no answer: who hears a question hears its answer
        if bare not in self._people:
            self._note_stranger(bare)
        elif stanza.get("type", "normal") in ("chat", "normal"):
            self._note_heard(stanzas.read_message(stanza, bare, time.time()))

    def _note_stranger(self, bare: str) -> None:
        if bare not in self._strangers and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(bare)
            log.info("people.stranger", sender=bare)

    def _note_heard(self, heard: Heard) -> None:
        was_read = self._heard.get(_same(heard), False)
        self._heard[_same(heard)] = heard.archived
        if was_read:  # in the archive, before it has arrived
            return
        if len(self._heard) > MAX_HEARD:
            self._heard.popitem(last=False)
        self._hear(heard)

    def _read_archived(self, stanza: Element) -> None:
        """Keep what an archive has answered: only that of our own account is asked."""
        if (found := stanzas.archived(stanza)) is None:
            return
        query, inner, at = found
        if query in self._queries:
            self._queries[query].append((inner, at))

    def _read_in_room(self, stanza: Element, place: Place, sender: str) -> None:
        nick = sender.partition("/")[2]
        if nick == self._nick:
            given = stanzas.stanza_id(stanza, place.jid)
            if given:
                self._placed(stanza.get("id", ""), given)
            return
        somebody = place.occupants.get(nick)
        if (
            somebody is None
            or not somebody.member
            or not somebody.real
            or stanzas.is_delayed(stanza)
        ):
            return
        if somebody.real != self._account:
            room = f"{ROOM}{place.jid}"
            self._hear(stanzas.read_message(stanza, somebody.real, time.time(), room))

    def _read_presence(self, subject: Subject) -> None:
        bare = _bare(subject.sender)
        if bare in self._rooms:
            self._read_occupant(subject, self._rooms[bare])
        elif bare in self._people:
            self._read_person(subject, bare)
        elif subject.type == "subscribe":
            self.keeper.send(stanzas.presence(bare, "unsubscribed"))

    def _read_person(self, subject: Subject, bare: str) -> None:
        clients = self._people[bare].clients
        match subject.type:
            case "subscribe":
                self.keeper.send(stanzas.presence(bare, "subscribed"))
            case "":
                if subject.sender in clients or len(clients) < MAX_CLIENTS:
                    clients[subject.sender] = subject.show, subject.priority
                    self._look_at(subject)
            case "unavailable":
                clients.pop(subject.sender, None)
                self._forms.pop(subject.sender, None)
                self._caps.pop(subject.sender, None)
            case _:
                return
        self._changed()

    def _look_at(self, subject: Subject) -> None:
        """Ask a client that announces what it can do whether it shows forms (XEP-0115), again when it announces something else."""
        client = subject.sender
        if subject.caps and self._caps.get(client) != subject.caps and "/" in client:
            self._caps[client] = subject.caps
            self._begin(self._ask_client(client))

    async def _ask_client(self, client: str) -> None:
        with suppress(Denied, Unanswered):
            answer = await self.keeper.ask(client, stanzas.CLIENT_WANTED, self._timings.answer)
            if client in self._caps:
                self._forms[client] = stanzas.shows_forms(answer)

    def _read_occupant(self, subject: Subject, place: Place) -> None:
        nick = subject.sender.partition("/")[2]
        if subject.type == "error":
            if not place.entered.done():
                sentence = f"The room {place.jid} does not let {self._account} in."
                place.entered.set_exception(Refused(sentence))
            else:
                log.warning("people.room_closed", room=place.jid)
            return
        if SELF in subject.codes or nick == self._nick:
            self._read_self(subject, place)
        elif subject.type == "unavailable":
            place.occupants.pop(nick, None)
        elif nick in place.occupants or len(place.occupants) < MAX_OCCUPANTS:
            is_free = subject.show in ("", "chat")
            place.occupants[nick] = Occupant(_bare(subject.real), subject.member, is_free)
        self._changed()

    def _read_self(self, subject: Subject, place: Place) -> None:
        if subject.type == "unavailable":
            place.inside = False
            place.occupants.clear()
            log.warning("people.room_left", room=place.jid)
            return
        place.inside = True
        if place.entered.done():
            return
        if NON_ANONYMOUS in subject.codes or subject.moderator:
            place.entered.set_result(None)
        else:
            sentence = f"The room {place.jid} does not show who is in it: make it non-anonymous, or {self._account} a moderator."
            place.entered.set_exception(Refused(sentence))


def _same(heard: Heard) -> tuple[object, ...]:
    """Return what is the same of a message each time that it is read, from the stream or from the archive; ids alone come again."""
    named = heard.action, heard.reply_to, heard.reaction_to, heard.reactions
    form = None if heard.form is None else tuple(sorted(heard.form.items()))
    return heard.sender, heard.id, heard.body, named, form


def _bare(jid: str) -> str:
    """Return the bare JID, in its usual form; empty for what is not a JID."""
    try:
        return str(JID(jid).bare)
    except InvalidJID:
        return ""
