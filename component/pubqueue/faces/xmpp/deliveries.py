"""Sends deliveries at their level, repeats what is not answered, and does what an answer or silence means."""

from __future__ import annotations

import heapq
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct
from msgspec.structs import replace

from pubqueue.faces.xmpp import bounces
from pubqueue.faces.xmpp.render import notices
from pubqueue.faces.xmpp.render.notices import carried
from pubqueue.faces.xmpp.xml.stanza import attribute, new_id
from pubqueue.model.decision import GivenUp, Unanswered
from pubqueue.model.entities import NUMBER, Jid, Level, mark_of
from pubqueue.rules import deliveries as rules
from pubqueue.rules.presence import Arrive, Bounce
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.xmpp.link import Link
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis
    from pubqueue.model.notices import Deliver


# Sends deliveries at their level, repeats what is not answered, and does what an answer or silence means.
#
# What follows is decided by `rules.deliveries`; a repetition asks the store first, because another instance may have received the
# answer, or the holder may have done something else with the item.

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
        repeating: rules.Repeating | None,
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
        if not self._write(request(what, self._service)):
            return False
        due = self.loop().time() + how.pause(1)
        item, mark = what.item, mark_of(what.subid)
        lock = item.seq, item.token, what.level, rules.FIRST[what.level], item.deadline
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
        how = self.repeating or rules.Repeating()
        for sent in list(self._waiting.over(self.loop().time())):
            if sent.sendings >= how.attempts:
                self._give_up(sent)
            else:
                self._ask(sent, partial(self._repeat, sent))
        self._set_timer()

    def _ask(self, sent: Sent, then: Callable[[Reply], None]) -> None:
        """Ask the store whether it still waits for an answer."""
        by = self._principal(sent.to)
        received = sent.step is rules.Step.DELIVER
        request = rules.AskUnanswered(by, sent.seq, sent.token, sent.deadline, received)
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
            self._put_off(sent, (self.repeating or rules.Repeating()).pause(sent.sendings))
        else:
            self._put_off(sent, RETRY)

    def _step(self, sent: Sent, what: Deliver) -> bytes:
        if sent.step is rules.Step.DELIVER:
            return deliver(sent.to, sent.seq, sent.token, self._service)
        return request(replace(what, level=sent.level), self._service)

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
        locks = [
            rules.Lock(one.seq, one.token, one.deadline, one.step is rules.Step.DELIVER)
            for one in each
        ]
        request = rules.GiveUpUnanswered(sent.to, tuple(locks))
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
        lock, sender = lock_of(head), head.get("from")
        if lock is None or sender is None or head.get("to") != self._service:
            return False
        return self._waiting.find(Jid(sender), *lock[:2]) is not None

    def take_answer(self, iq: Element) -> bool:
        """Handle an answer to a delivery, of this instance or another one; return whether it was awaited here."""
        lock, sender = lock_of(iq), iq.get("from")
        if sender is None or iq.get("to") != self._service:
            return False
        if lock is None:
            self._take_features(Jid(sender), iq)
            return False
        jid, (seq, token, to_deliver) = Jid(sender), lock
        sent = self._waiting.find(jid, seq, token)
        answer = answer_in(iq)
        if sent is None:
            self._pass_on(jid, seq, token, answer, to_deliver=to_deliver)
        elif to_deliver is (sent.step is rules.Step.DELIVER):
            self._act(sent, answer)
        return sent is not None

    def _act(self, sent: Sent, answer: rules.DeliveryAnswer) -> None:
        """Do what an answer to the step means."""
        outcome = rules.OUTCOMES[sent.step, answer]
        match outcome.then:
            case rules.Then.END:
                self._drop(sent)
            case rules.Then.DELIVER:
                self._deliver(sent)
            case rules.Then.MESSAGE:
                _remember(self._messages_only, sent.to)
                self._drop(sent)
                self._ask(sent, self._as_message)
            case rules.Then.BOUNCE:
                self._drop(sent)
                self._bounce(sent.to, sent.seq, sent.token, outcome.standing, sent.mark)
            case _:
                pass

    def _deliver(self, sent: Sent) -> None:
        """Say that the bytes may be used."""
        sent.step, sent.sendings = rules.Step.DELIVER, 1
        self._write(deliver(sent.to, sent.seq, sent.token, self._service))
        self._put_off(sent, (self.repeating or rules.Repeating()).pause(1))

    def _as_message(self, reply: Reply) -> None:
        if isinstance(reply, Unanswered) and reply.delivery is not None:
            self._write_message(reply.delivery)

    def _bounce(
        self, to: Jid, seq: int, token: int, standing: rules.Standing, mark: str | None
    ) -> None:
        back = Bounce(to, seq, token, gone=standing is rules.Standing.ENDS, bounced=True, mark=mark)
        self._broker.submit(back, _nothing)

    def _pass_on(
        self, jid: Jid, seq: int, token: int, answer: rules.DeliveryAnswer, *, to_deliver: bool
    ) -> None:
        """Note an answer to another instance; one that comes too late shows that its sender is there."""
        if answer in {rules.DeliveryAnswer.GONE, rules.DeliveryAnswer.FAILED}:
            standing = rules.OUTCOMES[rules.Step.ACKNOWLEDGED, answer].standing
            self._bounce(jid, seq, token, standing, None)
        elif jid in self._given_up:
            del self._given_up[jid]
            self._broker.submit(Arrive(jid), _nothing)
        elif answer is not rules.DeliveryAnswer.UNABLE and token not in self._late:
            arrived = to_deliver or answer is rules.DeliveryAnswer.RESULT
            self._broker.submit(
                rules.NoteDeliveryAnswer(jid, seq, token, arrived), self._deliver_for_other
            )

    def _deliver_for_other(self, reply: Reply) -> None:
        """Say `deliver` for bytes that were received from another instance, and await its answer."""
        if isinstance(reply, Unanswered) and (what := reply.delivery) is not None:
            item, due = what.item, self.loop().time()
            lock = item.seq, item.token, Level.ASSURED, rules.Step.DELIVER, item.deadline
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
        self._write(question(jid, new_id(), self._service))

    def _take_features(self, jid: Jid, iq: Element) -> None:
        """Note what a client has answered, to this instance or another one."""
        if is_to_question(iq) and (able := is_able(iq)) is not None:
            self._broker.submit(rules.NoteFeatures(jid, able), _nothing)

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


# The unanswered deliveries of this instance, by holder.
#
# Only the oldest delivery of a holder is repeated; the others wait for its outcome. Payloads are not kept.

MAX: Final = 200_000
"""Maximum number of watched deliveries. Further ones are sent once, and their locks time out if there is no answer."""

FAR: Final = 1e12
"""The time of a delivery during a query to the store: it is not due."""


class Sent(Struct):
    """A delivery with an unanswered step. Times are in seconds of one clock."""

    to: Jid
    seq: int
    token: int
    level: Level
    step: rules.Step
    deadline: Millis | None
    mark: str
    due: float
    sendings: int = 1


class UnansweredDeliveries:
    """Watches up to `MAX` deliveries; a holder without any uses no memory."""

    def __init__(self) -> None:
        self._of: dict[Jid, dict[int, Sent]] = {}
        self._count = 0
        self._line: list[tuple[float, Jid]] = []
        self.stalled: set[Jid] = set()
        """Holders whose oldest delivery was repeated and is still unanswered; they get no new deliveries."""

    def __len__(self) -> int:
        """Return the number of unanswered deliveries."""
        return self._count

    def add(self, sent: Sent) -> None:
        """Watch a delivery, as the newest of its holder; it replaces an earlier one of the item."""
        if (before := self.of_item(sent.to, sent.seq)) is not None:
            self.drop(before)
        if self._count >= MAX:
            return
        mine = self._of.setdefault(sent.to, {})
        mine[sent.seq] = sent
        self._count += 1
        if len(mine) == 1:
            self._put(sent)

    def of_item(self, to: Jid, seq: int) -> Sent | None:
        """Return the delivery of an item."""
        return self._of.get(to, {}).get(seq)

    def find(self, to: Jid, seq: int, token: int) -> Sent | None:
        """Return the delivery to exactly this address with exactly this token."""
        found = self.of_item(to, seq)
        return found if found is not None and found.token == token else None

    def of(self, to: Jid) -> list[Sent]:
        """Return the deliveries of a holder, the oldest first."""
        return list(self._of.get(to, {}).values())

    def drop(self, sent: Sent) -> None:
        """Stop watching a delivery; the next one of its holder becomes the oldest."""
        mine = self._of.get(sent.to, {})
        if mine.get(sent.seq) is not sent:
            return
        was_first = self._first(sent.to) is sent
        del mine[sent.seq]
        self._count -= 1
        if not mine:
            del self._of[sent.to]
        if was_first:
            self._look_at_first(sent.to)

    def put_off(self, sent: Sent, due: float) -> None:
        """Change the due time of a delivery."""
        sent.due = due
        if self._first(sent.to) is sent:
            self._look_at_first(sent.to)

    def _look_at_first(self, to: Jid) -> None:
        first = self._first(to)
        if first is not None:
            self._put(first)
        if first is not None and first.sendings > 1:
            self.stalled.add(to)
        else:
            self.stalled.discard(to)

    def over(self, now: float) -> Iterator[Sent]:
        """Return each holder's oldest delivery that is due; it is not due again until `put_off`."""
        while self._line and self._line[0][0] <= now:
            due, to = heapq.heappop(self._line)
            first = self._first(to)
            if first is not None and first.due == due:
                first.due = FAR
                yield first

    def next(self) -> float | None:
        """Return the time when the next delivery is due."""
        while self._line:
            due, to = self._line[0]
            first = self._first(to)
            if first is not None and first.due == due:
                return due
            heapq.heappop(self._line)
        return None

    def _first(self, to: Jid) -> Sent | None:
        return next(iter(self._of.get(to, {}).values()), None)

    def _put(self, sent: Sent) -> None:
        if sent.due < FAR:
            heapq.heappush(self._line, (sent.due, sent.to))


# Writes deliveries as requests, and interprets the answers (urn:xmpp:qos 2.2, 2.3).
#
# The ids of requests contain the lock. So a repeated request is the same bytes, and an answer identifies its delivery.

_NAME: Final = re.compile(f"pq-{NUMBER}-{NUMBER}(-deliver)?")
_ASKED: Final = re.compile(r"pq-qos-[0-9a-f-]{1,64}")

RECEIVED: Final = frozenset(
    ns.tag(space, "received") for space in (ns.QOS, ns.CLIENT, ns.COMPONENT)
)
"""The answer to `assured`: in the draft's namespace or, as in its examples, in that of the stream."""

UNABLE: Final = frozenset({"not-allowed", "feature-not-implemented"})
"""Conditions by which a client refuses the level."""

UNKNOWN_MESSAGE: Final = ns.tag(ns.PUBQUEUE, "unknown-message")

QUERY: Final = ns.tag(ns.DISCO_INFO, "query")
FEATURE: Final = ns.tag(ns.DISCO_INFO, "feature")


def name_of(seq: int, token: int) -> str:
    """Return the id of the request and its message, which is also the msgId."""
    return f"pq-{seq}-{token}"


def lock_of(iq: Element) -> tuple[int, int, bool] | None:
    """Return number and token of an answered delivery, and whether the answer is to its `deliver`."""
    found = _NAME.fullmatch(iq.get("id") or "")
    return None if found is None else (int(found[1]), int(found[2]), found[3] is not None)


def request(what: Deliver, service: str) -> bytes:
    """Return the first request of a delivery."""
    name = name_of(what.item.seq, what.item.token)
    verb, words = "acknowledged", ""
    if what.level is Level.ASSURED:
        verb, words = "assured", f' msgId="{name}"'
    before = f'{_start(service, what.to, name)}<{verb} xmlns="{ns.QOS}"{words}>'.encode()
    return before + carried(what, service, name) + f"</{verb}></iq>".encode()


def deliver(to: Jid, seq: int, token: int, service: str) -> bytes:
    """Return the request that lets the client use the received bytes."""
    name = name_of(seq, token)
    start = _start(service, to, f"{name}-deliver")
    return f'{start}<deliver xmlns="{ns.QOS}" msgId="{name}"/></iq>'.encode()


def _start(service: str, to: Jid, name: str) -> str:
    return f'<iq type="set" id="{name}" from="{attribute(service)}" to="{attribute(to)}">'


def answer_in(iq: Element) -> rules.DeliveryAnswer:
    """Return the meaning of an answer."""
    if iq.get("type") == "result":
        return rules.DeliveryAnswer.RECEIVED if _is_received(iq) else rules.DeliveryAnswer.RESULT
    error = bounces.error_of(iq)
    if bounces.condition_of(iq) in UNABLE:
        return rules.DeliveryAnswer.UNABLE
    if error is not None and error.find(UNKNOWN_MESSAGE) is not None:
        return rules.DeliveryAnswer.FAILED  # the client is online and has lost the bytes
    return rules.DeliveryAnswer.GONE if bounces.is_gone(error) else rules.DeliveryAnswer.FAILED


def _is_received(iq: Element) -> bool:
    name = (iq.get("id") or "").removesuffix("-deliver")
    found = next((child for child in iq.children if child.tag in RECEIVED), None)
    return found is not None and found.get("msgId") in {None, name}


def question(to: Jid, name: str, service: str) -> bytes:
    """Return the disco#info request to a client (XEP-0030)."""
    return (
        f'<iq type="get" id="pq-qos-{name}" from="{attribute(service)}" to="{attribute(to)}">'
        f'<query xmlns="{ns.DISCO_INFO}"/></iq>'
    ).encode()


def is_to_question(iq: Element) -> bool:
    """Return whether a stanza answers such a request by any instance."""
    return _ASKED.fullmatch(iq.get("id") or "") is not None


def is_able(iq: Element) -> bool | None:
    """Return whether the answer lists the extension; a client without service discovery does not have it. None: it is not known."""
    if iq.get("type") == "error":
        error = bounces.error_of(iq)
        return None if error is None or error.get("type") == "wait" else False
    if (query := iq.find(QUERY)) is None:
        return None
    return any(one.tag == FEATURE and one.get("var") == ns.QOS for one in query.children)
