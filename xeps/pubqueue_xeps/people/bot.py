"""The worker whose work is done by people: it takes items, holds them while questions are open, and ends them with the answers.

    await People(("approvals",), ask=("anna@example.org",), url=..., within=7200).run()

No lock and no place in the worker is kept while a person thinks: the item is held (`Hold`), with what was asked in what it carries,
and an answer is a signal to it. So the bot may be killed between any two steps. What it knows in memory, it learns from items: at
its start it has each held one delivered once, by a signal.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Unpack
from weakref import WeakValueDictionary

import msgspec
from slixmpp.jid import JID, InvalidJID

from pubqueue_xeps.client.ask import Denied, Unanswered
from pubqueue_xeps.client.connection import Connect, connect
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.client.publications import Publications
from pubqueue_xeps.errors import (
    ConfigurationError,
    LockLost,
    NotConfirmed,
    PubqueueError,
    Refused,
    ServiceUnavailable,
)
from pubqueue_xeps.log import log, trimmed
from pubqueue_xeps.people import answers, questions, turns
from pubqueue_xeps.people.answers import Chosen, Idle, Nothing, Open, Over, Unclear, Which
from pubqueue_xeps.people.chat import Chat
from pubqueue_xeps.people.questions import MAX_PEOPLE, Answer, Carry, Question, code, round_of
from pubqueue_xeps.people.stanzas import ROOM
from pubqueue_xeps.people.turns import (
    ANSWERED,
    BOUNCED,
    LOOK,
    NAMES,
    SENT,
    Came,
    Standing,
    Terms,
)
from pubqueue_xeps.wire import waits
from pubqueue_xeps.wire.asking import CORRELATION, REPLY_TO, bounded
from pubqueue_xeps.wire.names import joined
from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.publication import new_id
from pubqueue_xeps.wire.refusals import Reject
from pubqueue_xeps.wire.requests import pages
from pubqueue_xeps.wire.requests.pages import Walk
from pubqueue_xeps.wire.times import Span, span
from pubqueue_xeps.wire.waits import Hold, as_json
from pubqueue_xeps.worker.worker import SIGNALS, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.people.answers import Heard
    from pubqueue_xeps.people.turns import Step
    from pubqueue_xeps.xep_0254.queueing import Place

WITHIN: Final = 7200.0
LOOKS: Final = 10.0
"""Seconds between two looks at a queue from which nothing is taken, because no one can be asked."""
GIVEN_BACK: Final = 1.0
"""Seconds that an item waits if it came when no one could be asked."""
PAUSE: Final = 0.2
"""Seconds after which such an item is returned: as many come at most, even if others are due."""
PRUNING: Final = 30.0
"""Seconds between two looks at which of the open questions still have their items."""
TELLING: Final = 10.0
"""Seconds in which a person is notified; an item is not kept for longer by that."""
RECALLING: Final = 30.0
"""Seconds for held items to come, at the start."""
PATIENCE: Final = 60.0
"""Seconds in which a signal has to be confirmed, before it is sent again."""
GRACE: Final = 10.0
"""Seconds for the steps that are under way, at the end."""
MAX_SAID: Final = 1000
KEPT: Final = 500
"""Questions that have ended and are remembered, so that a late answer gets that answer."""


@dataclass(slots=True)
class Pending:
    """A question that the bot knows: its item, its text, and what it carries."""

    place: Place
    question: Question
    open: Open
    carry: Carry
    missed: int = 0
    """How often in a row its item was not among the held ones."""


class People:
    """Asks people the questions of one or more queues of a service, until `stop` or a signal.

    `ask` are bare JIDs, `rooms` those of rooms (XEP-0045); `window` is how many questions may be open for each at a time. A
    question is put to `at_once` of them; they have `within` (seconds or a timedelta, by default two hours) to answer, and are
    reminded every `remind`. Then it is the next one's turn, and after all of them it goes to the node `escalate`, or is dead.
    `signals` are the nodes to whose items an answer may be sent as a signal, if a question says so.

    The account must be a member and a publisher of the queues, and has one such program at a time: its full JID has the
    resource `people`, unless another is given. `where` stands for the keyword arguments of a `Worker` that `Connect` explains.
    Raises ConfigurationError, a ValueError, for an argument that is missing or wrong.
    """

    def __init__(
        self,
        node: Sequence[str] | None = None,
        jid: str | None = None,
        password: str | None = None,
        *,
        ask: Sequence[str] = (),
        rooms: Sequence[str] = (),
        window: int = 1,
        at_once: int = 1,
        within: Span = WITHIN,
        remind: Span | None = None,
        escalate: str | None = None,
        signals: Sequence[str] = (),
        timings: Timings | None = None,
        **where: Unpack[Connect],
    ) -> None:
        self._asked = (*_names(ask, "ask"), *(f"{ROOM}{one}" for one in _names(rooms, "rooms")))
        if not self._asked:
            raise ConfigurationError(
                "No one is to be asked: give ask= or rooms= (--ask, --room).", argument="ask"
            )
        if len(self._asked) > MAX_PEOPLE:
            raise ConfigurationError(
                f"A bot asks up to {MAX_PEOPLE} people and rooms.", argument="ask"
            )
        for name, value in (("window", window), ("at_once", at_once)):
            if value < 1:
                raise ConfigurationError(f"{name} is {value}; it is 1 or more.", argument=name)
        self._terms = Terms(
            within=_span("within", within),
            remind=None if remind is None else _span("remind", remind),
            at_once=at_once,
            escalate=escalate is not None,
        )
        self._window, self._escalate, self._signals = window, escalate, frozenset(signals)
        self._timings = timings or Timings()
        given = connect("people", jid, password, where, nodes=None if node is None else tuple(node))
        nodes = given.nodes
        for argument, names in (("escalate", (escalate,)), ("signals", signals)):
            if "" in names:
                raise ConfigurationError(f"A name in {argument} is empty.", argument=argument)
        if escalate is not None and escalate in nodes:
            raise ConfigurationError(
                f"{escalate!r} is a node of this bot, and cannot get what nobody answers there.",
                argument="escalate",
            )
        fixed = f"{given.account}/people"
        self._connection = replace(given, jid=fixed) if given.is_resource_ours else given
        self._service, self._me = given.service, given.account
        self._worker = Worker(
            given.account,
            given.password,
            node=nodes,
            requests=1,
            timings=self._timings,
            signals=SIGNALS,
            service=given.service,
            host=given.host,
            port=given.port,
            tls=given.tls,
            ca_file=given.ca_file,
        )
        self._nodes = nodes
        self._known: dict[str, Pending] = {}
        """By the id of the round: those that are open, and some that have ended."""
        self._last: dict[str, float] = {}
        self._said: set[tuple[str, str]] = set()
        """What was asked back of whom: once for each question."""
        self._works: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()
        """The items of which a step is under way."""
        self._sending: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._heard_all = asyncio.Event()
        """Whether what was said while no bot was there has been received."""
        self._looks_at = 0.0
        self._recalled: set[Place] = set()

    async def run(self) -> None:
        """Ask until `stop`, SIGTERM or SIGINT.

        Raises what entering a Worker raises, and Refused if the account may not read a queue, or a room is closed to it.
        """
        self._chat = Chat(
            self._connection,
            self._timings,
            self._asked,
            hear=self._hear,
            placed=self._place_in_room,
            bounced=self._bounce,
            changed=self._news.set,
            returned=lambda: self._spawn(self._catch_up()),
        )
        self._publications = Publications(self._chat.keeper, self._service, self._timings)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._chat.close)
            await self._chat.open()
            await stack.enter_async_context(self._worker)
            stack.push_async_callback(self._end)
            taking = asyncio.create_task(self._take_all(), name="people items")
            living = asyncio.create_task(self._live(), name="people")
            self._tasks |= {taking, living}
            ended, _ = await asyncio.wait({taking, living}, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                await task
            if self._steps:
                await asyncio.wait(self._steps, timeout=GRACE)

    @property
    def free(self) -> int:
        """How many more questions can be put to people now."""
        return sum(one.free for one in self._standings()) if self._heard_all.is_set() else 0

    def stop(self) -> None:
        """Take no more items; questions stay open, and the next bot goes on with them."""
        self._worker.stop()

    async def _end(self) -> None:
        for task in (tasks := [*self._tasks, *self._steps]):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._note(asyncio.create_task(work), self._tasks)

    def _note(self, task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
        """Keep a task until it is over; log what it raises."""
        among.add(task)

        def over(task: asyncio.Task[None]) -> None:
            among.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:
                name = type(error).__name__
                log.error("people.failed", why=str(error), error=name, exc_info=trimmed(error))

        task.add_done_callback(over)

    # The start: what is open.

    async def _live(self) -> None:
        """Begin, then give the worker the window that fits, until there is no connection any more for good."""
        await self._recall()
        await self._chat.announce()
        log.info("people.ready", jid=self._me, open=len(self._open()))
        await self._catch_up()
        self._heard_all.set()
        self._spawn(self._prune())
        await self._regulate()

    async def _catch_up(self) -> None:
        """Receive what was said while no one listened."""
        for name, since in self._oldest().items():
            await self._chat.catch_up(name, since)

    async def _recall(self) -> None:
        """Have each held item delivered once, to learn what is open.

        The bot is not available before: until then the server keeps what is sent to it.
        """
        await self._worker.resize(0)
        for node in self._nodes:
            async for item in self._held(node):
                place = node, item
                self._recalled.add(place)
                if await self._signal_quietly(place, LOOK, {}, new_id()) != "queued":
                    self._recalled.discard(place)
        with suppress(TimeoutError):
            async with asyncio.timeout(RECALLING):
                while self._recalled:
                    self._news.clear()
                    await self._worker.resize(min(turns.MAX_WINDOW, len(self._recalled)))
                    await self._news.wait()
        self._recalled.clear()

    async def _held(self, node: str) -> AsyncIterator[str]:
        """Iterate over the ids of the items of a node that are held."""
        walk = Walk(0, None)
        while walk.more:
            asked = pages.item_question(node, walk.after, walk.until, state="held", payload=False)
            try:
                answer, _ = await self._publications.confirmed(asked, node, PATIENCE)
            except Refused as error:
                raise Refused(
                    f"{self._me} has to be a publisher of {node!r}, beside a member: {error}",
                    condition=error.condition,
                    node=node,
                ) from None
            page = pages.item_page(pages.element(answer, asked), node)
            for item in walk.take(page).entries:
                yield item.id

    def _open(self) -> list[Pending]:
        return [one for one in self._known.values() if one.open.ended is None]

    def _oldest(self) -> dict[str, float]:
        """Return since when there is an open question, for each who has one."""
        found: dict[str, float] = {}
        for one in self._open():
            for name in one.open.to:
                found[name] = min(one.open.since, found.get(name, one.open.since))
        return {name: since for name, since in found.items() if name in self._asked}

    # What is taken: as much as can be asked.

    def _standings(self) -> list[Standing]:
        count: dict[str, int] = {}
        for one in self._open():
            if one.open.is_open:
                for name in one.open.to:
                    count[name] = count.get(name, 0) + 1
        return [
            Standing(
                name,
                self._chat.is_available(name),
                count.get(name, 0),
                self._window,
                self._last.get(name, 0.0),
            )
            for name in self._asked
        ]

    async def _regulate(self) -> None:
        """Give the worker another window whenever a person comes or goes, or an item is due."""
        taken = None
        while True:
            await self._chat.keeper.ready()
            self._news.clear()
            now, looks_in = time.time(), self._looks_at - time.monotonic()
            due = sum(one.open.answered or _wake(one) <= now for one in self._open())
            wanted = turns.window(self._standings(), due, looking=looks_in <= 0)
            if wanted != taken:
                try:
                    await self._worker.resize(wanted)
                    taken = wanted
                except PubqueueError as error:
                    log.warning("people.window_refused", why=str(error))
            wakes = [_wake(one) - now for one in self._open()]
            left = min([one for one in (looks_in, *wakes) if one > 0], default=LOOKS)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOKS, left + PAUSE)):
                    await self._news.wait()

    async def _take_all(self) -> None:
        async for item in self._worker:
            self._note(asyncio.create_task(self._work(item)), self._steps)

    async def _work(self, item: Item) -> None:
        """Do the next step of an item, after the one before is over."""
        lock = self._works.setdefault(item.place, asyncio.Lock())
        try:
            async with lock, item:
                await self._do(item)
        finally:
            self._recalled.discard(item.place)
            self._news.set()

    async def _do(self, item: Item) -> None:
        question = item.decode(Question)
        questions.check(question, self._signals)
        carry = _carried(item)
        self._learn(item.place, question, carry)
        came = [Came(one.name, _data(one), one.by) for one in item.signals]
        step = turns.step(
            carry,
            item.woken,
            came,
            self._standings(),
            self._terms,
            by=self._me,
            now=time.time(),
            new_id=secrets.token_hex(questions.ID_SIGNS // 2),
        )
        await self._take_step(item, question, carry, step)

    def _learn(self, place: Place, question: Question, carry: Carry) -> Pending | None:
        """Note the question that an item carries; any other of the item has ended."""
        current = carry.round
        for one in self._open():
            if one.place == place and (current is None or one.open.id != current.id):
                self._close(one)
        if current is None:
            return None
        found = self._known.get(current.id)
        if found is None:
            opened = Open(
                id=current.id, to=current.to, choices=question.choices, since=current.since
            )
            found = self._known[current.id] = Pending(place, question, opened, carry)
            for name in current.to:
                self._last[name] = max(current.since, self._last.get(name, 0.0))
        found.carry, found.missed = carry, 0
        return found

    # The steps.

    async def _take_step(self, item: Item, question: Question, carry: Carry, step: Step) -> None:
        before = None if carry.round is None else self._known.get(carry.round.id)
        match step:
            case turns.NoOne():
                self._looks_at = time.monotonic() + LOOKS
                self._news.set()
                await asyncio.sleep(PAUSE)
                # not released: the pause after a release grows each time
                await item.unlock(Hold(NAMES, within=GIVEN_BACK))
            case turns.Ask(new):
                if before is not None:
                    self._close(before)
                    self._tell_all(before, questions.passed_on(code(before.open.id)))
                await self._hold(item, question, new)
                self._spawn(self._send(self._known[_round(new)], perhaps=False))
            case turns.SendAgain(new):
                await self._hold(item, question, new)
                self._spawn(self._send(self._known[_round(new)], perhaps=True))
            case turns.Wait(new):
                await self._hold(item, question, new)
            case turns.Remind(new):
                await self._remind(question, new)
                await self._hold(item, question, new)
            case turns.Finish(answer):
                await self._finish(item, question, carry, answer)
            case turns.Escalate(past):
                assert self._escalate is not None, "only then"
                await self._pass_on(item, question, turns.history(past), self._escalate)
                self._end_open(before)
            case turns.GiveUp(reason):
                self._end_open(before)
                raise Reject(reason)

    async def _hold(self, item: Item, question: Question, carry: Carry) -> None:
        """Hold an item; when this returns, the service has what was asked, and nothing was sent before."""
        fresh = _round(carry) not in self._known
        pending = self._learn(item.place, question, carry)
        assert pending is not None, "it was asked"
        self._news.set()
        try:
            await item.unlock(Hold(NAMES, within=turns.time_left(carry, time.time()), carry=carry))
        finally:
            if fresh and item.state != "unlocked":
                self._known.pop(pending.open.id, None)
        if item.state != "unlocked":
            raise LockLost(node=item.node, id=item.id)

    async def _send(self, pending: Pending, *, perhaps: bool) -> None:
        """Send a question to all who are asked, and mark its item as sent.

        After a connection was lost, the archive shows whether the server has it. Without an archive that cannot be known: then it
        is sent again, under the same id.
        """
        asked = pending.open
        if asked.id in self._sending:
            return
        self._sending.add(asked.id)
        try:
            if perhaps:
                await self._heard_all.wait()
            words = questions.text(pending.question, code(asked.id), pending.place[0])
            for to in asked.to:
                await self._send_to(to, asked, words, unsure=perhaps)
            if asked.is_open:
                data = {"question": asked.id}
                await self._signal_surely(pending.place, SENT, data, f"{asked.id}.sent")
        finally:
            self._sending.discard(asked.id)

    async def _send_to(self, to: str, asked: Open, words: str, *, unsure: bool) -> None:
        sent = False
        while not sent and asked.is_open and to in self._asked:
            known = await self._chat.was_sent(to, asked.id, asked.since) if unsure else False
            if known or not asked.is_open:
                return
            body = questions.perhaps_again(words) if unsure and known is None else words
            sent = await self._chat.ask(to, asked.id, 0, body, asked.choices)
            unsure = True

    async def _remind(self, question: Question, carry: Carry) -> None:
        assert carry.round is not None, "it was asked"
        name = code(carry.round.id)
        for to in carry.round.to:
            words = questions.reminder(question, name)
            await self._say(to, carry.round.id, f"r{carry.round.reminders}", words)

    async def _finish(self, item: Item, question: Question, carry: Carry, answer: Answer) -> None:
        """Pass an answer on to who asked, notify those who were asked, and end the item."""
        if answer.choice >= len(question.choices):
            raise Reject("the answer is none of the choices")
        word = question.choices[answer.choice]
        said = {"choice": word, "by": answer.by, "at": round(answer.at), "reason": answer.reason}
        passed = item.wants_reply or question.signal is not None
        if item.wants_reply:
            await item.reply(said)
        if question.signal is not None:
            await self._answer_item(item, question.signal, word, said)
        to = carry.rounds().get(answer.question, ())
        name, about = code(answer.question), answer.question
        for one in to:
            is_mine = one == answer.by or one.startswith(ROOM)
            text = (
                questions.done(question, name, answer.choice)
                if one == answer.by
                else questions.done_by(question, name, answer)
            )
            await self._say(one, about, "d" if is_mine else "o", text)
        for pending in [one for one in self._open() if one.place == item.place]:
            self._close(pending)
            if pending.open.id != about:
                self._tell_all(pending, questions.done_by(question, code(pending.open.id), answer))
        if answer.choice and not passed:
            raise Reject(f"{word} ({answer.by}){f': {answer.reason}' if answer.reason else ''}")

    async def _answer_item(
        self, item: Item, target: questions.Target, word: str, said: dict[str, Any]
    ) -> None:
        """Signal the item that waits for the answer; if it is gone, no one waits."""
        known = bounded(joined(item.node, item.id))
        if await self._signal_quietly((target.node, target.id), word, said, known) is None:
            log.warning("people.nobody_waits", node=target.node, id=target.id)

    async def _pass_on(
        self, item: Item, question: Question, history: list[dict[str, object]], node: str
    ) -> None:
        payload = msgspec.to_builtins(question) | {"history": history}
        if question.signal is None:
            del payload["signal"]
        name = bounded(joined(item.node, item.id, "escalated"))
        headers = {one: item.headers[one] for one in (REPLY_TO, CORRELATION) if one in item.headers}
        await item.publish(node, payload, id=name, headers=headers or None)
        log.info("people.escalated", node=item.node, id=item.id, to=node)

    def _end_open(self, pending: Pending | None) -> None:
        if pending is not None and pending.open.ended is None:
            self._close(pending)
            self._tell_all(pending, questions.passed_on(code(pending.open.id)))

    # What is said.

    async def _say(self, to: str, about: str, part: str, words: str) -> None:
        """Send a person a message, without keeping an item for long if there is no connection."""
        if to not in self._asked:
            return
        try:
            async with asyncio.timeout(TELLING):
                await self._chat.say(to, about, part, words)
        except (TimeoutError, PubqueueError):
            log.warning("people.not_told", to=to)

    def _tell_all(self, pending: Pending, words: str) -> None:
        for to in pending.open.to:
            self._spawn(self._say(to, pending.open.id, "e", words))

    def _say_once(self, heard: Heard, about: str, words: str) -> None:
        """Say something about what cannot be used, once; never to what is read from the archive."""
        to = heard.room or heard.sender
        if heard.archived or (to, about) in self._said:
            return
        if len(self._said) > MAX_SAID:
            self._said.clear()
        self._said.add((to, about))
        self._spawn(self._say(to, about, "a", words))

    # What is heard.

    def _hear(self, heard: Heard) -> None:
        place = heard.room or heard.sender
        mine = [one.open for one in self._known.values() if place in one.open.to]
        match answers.understand(heard, mine, frozenset(self._asked)):
            case Chosen(about, choice, reason):
                self._forget_said(place)
                answer = Answer(about, choice, heard.sender, time.time(), reason)
                self._known[about].open.answered = True
                self._spawn(self._answered(self._known[about], answer, heard))
            case Unclear(about):
                words = answers.again(self._known[about].open.choices, code(about))
                self._say_once(heard, about, words)
            case Which(about):
                self._say_once(heard, "which", answers.which([code(one) for one in about]))
            case Over(name):
                self._say_once(heard, f"over {name}", answers.over(name))
            case Idle():
                self._say_once(heard, "idle", answers.IDLE)
            case Nothing():
                pass

    def _forget_said(self, place: str) -> None:
        """Allow the next misunderstanding to be asked back: this person is understood."""
        self._said -= {one for one in self._said if one[0] == place}

    async def _answered(self, pending: Pending, answer: Answer, heard: Heard) -> None:
        """Give an answer to its item; the first one of a question counts."""
        about = answer.question
        data = msgspec.to_builtins(answer)
        if await self._signal_surely(pending.place, ANSWERED, data, f"{about}.answered") is None:
            self._close(pending)
            self._say_once(heard, f"over {code(about)}", answers.over(code(about)))
        self._news.set()

    def _place_in_room(self, message: str, given: str) -> None:
        pending = self._known.get(round_of(message))
        if pending is not None:
            pending.open.aliases.add(given)

    def _bounce(self, message: str, name: str) -> None:
        pending = self._known.get(round_of(message))
        if pending is None or not pending.open.is_open or name not in pending.open.to:
            return
        log.warning("people.undeliverable", to=name)
        data = {"question": pending.open.id, "to": name}
        known = f"{pending.open.id}.bounced.{pending.open.to.index(name)}"
        self._spawn(self._bounced(pending.place, data, known))

    async def _bounced(self, place: Place, data: dict[str, Any], known: str) -> None:
        await self._signal_surely(place, BOUNCED, data, known)

    # Signals, and what has ended.

    async def _signal(self, place: Place, name: str, data: dict[str, Any], known: str) -> str:
        """Send a signal, under an id that makes a repeated one count once; return the state of the item."""
        node, item = place
        question = waits.request(node, item, name, as_json(data, "the answer"), known)
        answer = await self._publications.signal(question, node, PATIENCE)
        return waits.read_signaled(answer, node, item, known).state

    async def _signal_surely(
        self, place: Place, name: str, data: dict[str, Any], known: str
    ) -> str | None:
        """Send a signal until it is confirmed; return None if the item is gone. Raises errors that do not go away."""
        while True:
            try:
                return await self._signal_quietly(place, name, data, known)
            except (ServiceUnavailable, NotConfirmed) as error:
                log.warning("people.signal_waits", node=place[0], id=place[1], why=str(error))

    async def _signal_quietly(
        self, place: Place, name: str, data: dict[str, Any], known: str
    ) -> str | None:
        """Send a signal; return None if the item is gone."""
        try:
            return await self._signal(place, name, data, known)
        except Refused as error:
            if error.condition != "item-not-found":
                raise
            return None

    def _close(self, pending: Pending) -> None:
        """Note that a question has ended; it is remembered for a while."""
        pending.open.ended = time.time()
        ended = [name for name, one in self._known.items() if one.open.ended is not None]
        for name in ended[: max(0, len(ended) - KEPT)]:
            del self._known[name]
        self._news.set()

    async def _prune(self) -> None:
        """End the questions whose items are gone: cancelled, expired, or purged."""
        while True:
            await asyncio.sleep(PRUNING)
            with suppress(PubqueueError, Denied, Unanswered):
                for node in {one.place[0] for one in self._open()}:
                    held = {item async for item in self._held(node)}
                    self._look_for(node, held)

    def _look_for(self, node: str, held: set[str]) -> None:
        for one in self._open():
            if one.place[0] != node or one.place in self._works:
                continue
            one.missed = 0 if one.place[1] in held else one.missed + 1
            if one.missed > 2:  # noqa: PLR2004  one that is woken is on its way for a while
                self._close(one)
                self._tell_all(one, questions.gone(code(one.open.id)))


def _round(carry: Carry) -> str:
    assert carry.round is not None, "it was asked"
    return carry.round.id


def _wake(pending: Pending) -> float:
    assert pending.carry.round is not None, "it was asked"
    return pending.carry.round.wake


def _carried(item: Item) -> Carry:
    """Return what an item carries; one that carries something else was held by another program."""
    carried = item.carried
    if carried is None:
        return Carry()
    try:
        return msgspec.convert(carried, Carry)
    except msgspec.ValidationError:
        raise Reject("the item was held by another program than `pubqueue people`") from None


def _data(one: waits.Signal) -> Any:  # noqa: ANN401  any value of JSON
    try:
        return one.data
    except DecodeError:
        return None


def _names(given: Sequence[str], argument: str) -> tuple[str, ...]:
    """Return bare JIDs in their usual form; raise ConfigurationError for what is none, or is given twice."""
    found = []
    for one in given:
        try:
            jid = JID(one)
        except InvalidJID:
            jid = JID()
        if not jid.local or jid.resource:
            raise ConfigurationError(
                f"{one!r} is not a bare JID, such as anna@example.org.", argument=argument
            )
        if str(jid.bare) in found:
            raise ConfigurationError(f"{one!r} is given more than once.", argument=argument)
        found.append(str(jid.bare))
    return tuple(found)


def _span(name: str, value: Span) -> float:
    try:
        seconds = span(name, value)
    except ValueError as error:
        raise ConfigurationError(f"{error}.", argument=name) from None
    if not seconds:
        raise ConfigurationError(f"{name} is longer than 0 seconds.", argument=name)
    return seconds
