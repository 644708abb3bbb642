"""Sends deliveries at their level, repeats what is not answered, and does what an answer or silence means.

What follows is decided by `core.deliveries`; a repetition asks the store first, because another instance may have received the
answer, or the holder may have done something else with the item.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec.structs import replace

from pubqueue.faces.xmpp.qos_deliveries import words
from pubqueue.faces.xmpp.qos_deliveries.unanswered import Sent, UnansweredDeliveries
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.xml.ids import new_id
from pubqueue.model.decision import GivenUp, Unanswered
from pubqueue.model.entities import Jid, Level, mark_of
from pubqueue.rules.deliveries import (
    FIRST,
    OUTCOMES,
    AskUnanswered,
    DeliveryAnswer,
    GiveUpUnanswered,
    Lock,
    NoteDeliveryAnswer,
    NoteFeatures,
    Place,
    Repeating,
    Step,
    Then,
)
from pubqueue.rules.presence import Arrive, Bounce

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Reply
    from pubqueue.model.notices import Deliver

log = structlog.get_logger(__name__)

REMEMBERED: Final = 10_000
"""Addresses, and answered locks, that are remembered of each kind; the oldest are forgotten."""

RETRY: Final = 1.0
"""Seconds until the next attempt, after the store or the stream has failed."""


class Deliveries:
    """The deliveries of one instance. Without `repeating` all are messages."""

    def __init__(
        self,
        link: Link,
        loop: Callable[[], asyncio.AbstractEventLoop],
        traffic: Traffic,
        repeating: Repeating | None,
    ) -> None:
        self._service, self._broker, self._write = link.jid, link.broker, link.write
        self._principal, self.loop, self._traffic = link.principal, loop, traffic
        self.repeating = repeating
        self._waiting = UnansweredDeliveries()
        self.stalled = self._waiting.stalled
        self._messages_only: dict[Jid, None] = {}
        self._given_up: dict[Jid, None] = {}
        self._late: dict[int, None] = {}
        """Tokens of deliveries that were repeated: they may be answered twice."""
        self._timer: asyncio.TimerHandle | None = None

    # --- out ---

    def send(self, what: Deliver) -> bool:
        """Send a delivery that has a level; return whether there is a stream."""
        how = self.repeating
        if how is None or what.to in self._messages_only:
            return self._write_message(what)
        if not self._write(words.request(what, self._service)):
            return False
        due = self.loop().time() + how.pause(1)
        item, mark = what.item, mark_of(what.subid)
        lock = item.seq, item.token, what.level, FIRST[what.level], item.deadline
        self._watch(Sent(what.to, *lock, mark, due))
        return True

    def _write_message(self, what: Deliver) -> bool:
        return self._write(notices.notice(what, self._service, new_id))

    def _watch(self, sent: Sent) -> None:
        self._waiting.add(sent)
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._waiting.next()
        if self._timer is not None:
            if due is not None and self._timer.when() <= due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self.loop().call_at(due, self._tick)

    def _tick(self) -> None:
        """Repeat, or give up, the oldest of each holder whose time has come."""
        self._timer = None
        how = self.repeating or Repeating()
        for sent in list(self._waiting.over(self.loop().time())):
            if sent.sendings >= how.attempts:
                self._give_up(sent)
            else:
                self._ask(sent, partial(self._repeat, sent))
        self._set_timer()

    def _ask(self, sent: Sent, then: Callable[[Reply], None]) -> None:
        """Ask the store whether it still waits for an answer."""
        by = self._principal(sent.to)
        received = sent.step is Step.DELIVER
        request = AskUnanswered(by, sent.seq, sent.token, sent.deadline, received)
        self._broker.submit(request, then)

    def _repeat(self, sent: Sent, reply: Reply) -> None:
        """Send the step again, the same bytes, if it is still to be answered."""
        if self._waiting.find(sent.to, sent.seq, sent.token) is not sent:
            return
        if not isinstance(reply, Unanswered):
            self._put_off(sent, RETRY)
        elif reply.delivery is None:
            self._drop(sent)
        elif self._write(self._step(sent, reply.delivery)):
            sent.sendings += 1
            self._traffic.repeated += 1
            _remember(self._late, sent.token)
            self._put_off(sent, (self.repeating or Repeating()).pause(sent.sendings))
        else:
            self._put_off(sent, RETRY)

    def _step(self, sent: Sent, what: Deliver) -> bytes:
        if sent.step is Step.DELIVER:
            return words.deliver(sent.to, sent.seq, sent.token, self._service)
        return words.request(replace(what, level=sent.level), self._service)

    def _put_off(self, sent: Sent, pause: float) -> None:
        was = sent.to in self.stalled
        self._waiting.put_off(sent, self.loop().time() + pause)
        self._reach_again(sent.to, was=was)
        self._set_timer()

    def _drop(self, *over: Sent) -> None:
        """Watch deliveries of one holder no more."""
        for sent in over:
            was = sent.to in self.stalled
            self._waiting.drop(sent)
            self._reach_again(sent.to, was=was)
        self._set_timer()

    def _reach_again(self, to: Jid, *, was: bool) -> None:
        if (to in self.stalled) is not was:
            self._broker.outbox.reach_changed(to)

    def _give_up(self, sent: Sent) -> None:
        each = [sent, *(one for one in self._waiting.of(sent.to) if one is not sent)]
        locks = [Lock(one.seq, one.token, one.deadline, one.step is Step.DELIVER) for one in each]
        request = GiveUpUnanswered(sent.to, tuple(locks))
        self._broker.submit(request, partial(self._gave_up, sent, each))

    def _gave_up(self, sent: Sent, each: list[Sent], reply: Reply) -> None:
        if not isinstance(reply, GivenUp):
            self._put_off(sent, RETRY)
        elif (
            not reply.count
        ):  # it was answered at another instance, or the item is no longer the holder's
            self._drop(sent)
        else:
            self._traffic.given_up += reply.count
            _remember(self._given_up, sent.to)
            log.warning("delivery.unanswered", to=sent.to, items=reply.count)
            self._drop(*each)

    # --- in ---

    def awaits(self, head: Element) -> bool:
        """Return whether the stanza is an answer to a delivery of this instance."""
        if not len(self._waiting) or head.get("type") not in {"result", "error"}:
            return False
        lock, sender = words.lock_of(head), head.get("from")
        if lock is None or sender is None or head.get("to") != self._service:
            return False
        return self._waiting.find(Jid(sender), *lock[:2]) is not None

    def take_answer(self, iq: Element) -> bool:
        """Handle an answer to a delivery, of this instance or another one; return whether it was awaited here."""
        lock, sender = words.lock_of(iq), iq.get("from")
        if sender is None or iq.get("to") != self._service:
            return False
        if lock is None:
            self._take_features(Jid(sender), iq)
            return False
        jid, (seq, token, to_deliver) = Jid(sender), lock
        sent = self._waiting.find(jid, seq, token)
        answer = words.answer_in(iq)
        if sent is None:
            self._pass_on(jid, seq, token, answer, to_deliver=to_deliver)
        elif to_deliver is (sent.step is Step.DELIVER):
            self._act(sent, answer)
        return sent is not None

    def _act(self, sent: Sent, answer: DeliveryAnswer) -> None:
        """Do what an answer to the step means."""
        outcome = OUTCOMES[sent.step, answer]
        match outcome.then:
            case Then.END:
                self._drop(sent)
            case Then.DELIVER:
                self._deliver(sent)
            case Then.MESSAGE:
                _remember(self._messages_only, sent.to)
                self._drop(sent)
                self._ask(sent, self._as_message)
            case Then.BOUNCE:
                self._drop(sent)
                self._bounce(sent.to, sent.seq, sent.token, outcome.place, sent.mark)
            case _:
                pass

    def _deliver(self, sent: Sent) -> None:
        """Say that the bytes may be used."""
        sent.step, sent.sendings = Step.DELIVER, 1
        self._write(words.deliver(sent.to, sent.seq, sent.token, self._service))
        self._put_off(sent, (self.repeating or Repeating()).pause(1))

    def _as_message(self, reply: Reply) -> None:
        if isinstance(reply, Unanswered) and reply.delivery is not None:
            self._write_message(reply.delivery)

    def _bounce(self, to: Jid, seq: int, token: int, place: Place, mark: str | None) -> None:
        back = Bounce(to, seq, token, gone=place is Place.ENDS, bounced=True, mark=mark)
        self._broker.submit(back, _nothing)

    def _pass_on(
        self, jid: Jid, seq: int, token: int, answer: DeliveryAnswer, *, to_deliver: bool
    ) -> None:
        """Note an answer to another instance; one that comes too late shows that its sender is there."""
        if answer in {DeliveryAnswer.GONE, DeliveryAnswer.FAILED}:
            place = OUTCOMES[Step.ACKNOWLEDGED, answer].place
            self._bounce(jid, seq, token, place, None)
        elif jid in self._given_up:
            del self._given_up[jid]
            self._broker.submit(Arrive(jid), _nothing)
        elif answer is not DeliveryAnswer.UNABLE and token not in self._late:
            arrived = to_deliver or answer is DeliveryAnswer.RESULT
            self._broker.submit(
                NoteDeliveryAnswer(jid, seq, token, arrived), self._deliver_for_other
            )

    def _deliver_for_other(self, reply: Reply) -> None:
        """Say `deliver` for bytes that were received from another instance, and await its answer."""
        if isinstance(reply, Unanswered) and (what := reply.delivery) is not None:
            item, due = what.item, self.loop().time()
            lock = item.seq, item.token, Level.ASSURED, Step.DELIVER, item.deadline
            sent = Sent(what.to, *lock, mark_of(what.subid), due)
            self._waiting.add(sent)
            self._deliver(sent)

    # --- what clients can do ---

    def came(self, jid: Jid) -> None:
        """Note that a full JID has come again: its client may be another one, and what it left unanswered may be over."""
        self._messages_only.pop(jid, None)
        self._given_up.pop(jid, None)
        for sent in self._waiting.of(jid):
            sent.sendings = 1
            self._put_off(sent, 0)

    def ask_features(self, jid: Jid) -> None:
        """Ask the client of a full JID what it can do."""
        self._write(words.question(jid, new_id(), self._service))

    def _take_features(self, jid: Jid, iq: Element) -> None:
        """Note what a client has answered, to this instance or another one."""
        if words.is_to_question(iq) and (able := words.is_able(iq)) is not None:
            self._broker.submit(NoteFeatures(jid, able), _nothing)

    def stop(self) -> None:
        """Repeat nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _remember(known: dict[Jid, None] | dict[int, None], key: Jid | int) -> None:
    known[key] = None  # type: ignore[index]  # a key of its kind
    if len(known) > REMEMBERED:
        del known[next(iter(known))]  # type: ignore[arg-type]


def _nothing(_reply: Reply) -> None:
    pass
