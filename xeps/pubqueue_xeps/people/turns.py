"""Whose turn it is, and what becomes of an item each time that it comes: asked, reminded, passed on, answered.

Pure: the clock and new ids are arguments. A step is returned, and `bot` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from pubqueue_xeps.people.questions import MAX_PEOPLE, Answer, Asked, Carry, Round

# Signals. Only those of an account of the bot count: the author of an item may send it signals too, and must not answer itself.

ANSWERED: Final = "people.answered"
SENT: Final = "people.sent"
LOOK: Final = "people.look"
BOUNCED: Final = "people.bounced"
NAMES: Final = (ANSWERED, SENT, LOOK, BOUNCED)

SENDING: Final = 60.0
"""Seconds in which a question has to be sent; after them the item comes back by itself."""
AGAIN: Final = 600.0
"""Seconds after which others are looked for again, if no one else could be asked."""


# Who is available.

Show = Literal["", "chat", "away", "xa", "dnd"]


@dataclass(slots=True)
class Presences:
    """The clients of a person that are online: each with its show, and its priority."""

    clients: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def available(self) -> bool:
        """Whether one of them can be asked. A client of a negative priority gets no messages, and one that is busy speaks for all."""
        shows = [show for show, priority in self.clients.values() if priority >= 0]
        return "dnd" not in shows and any(show in ("", "chat") for show in shows)


@dataclass(frozen=True, slots=True)
class Standing:
    """A person, or a room: whether it can be asked, how many questions are open for it, of how many, and when the last was asked."""

    jid: str
    available: bool
    open: int
    window: int
    last: float = 0.0

    @property
    def free(self) -> int:
        """How many more questions may be put to it now."""
        return max(0, self.window - self.open) if self.available else 0


def next_asked(
    standings: Iterable[Standing], before: frozenset[str], at_once: int
) -> tuple[str, ...]:
    """Return who is asked next: those with the fewest open questions first, then those who were asked longest ago."""
    able = [one for one in standings if one.free and one.jid not in before]
    able.sort(key=lambda one: (one.open, one.last))
    return tuple(one.jid for one in able[:at_once])


def window(standings: Sequence[Standing], due: int, *, looking: bool) -> int:
    """Return how many items the worker takes at a time: as many as can be asked now, and those that are known to come back.

    While no one can be asked, it is 0, except now and then (`looking`): an item that another bot has left may come back.
    """
    free = sum(one.free for one in standings)
    if free:
        return min(MAX_WINDOW, free + min(due, 10))
    return min(10, due) or (1 if looking else 0)


MAX_WINDOW: Final = 100


# What becomes of an item.


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How people are asked: each for `within` seconds, reminded every `remind`, `at_once` of them at the same time."""

    within: float
    remind: float | None = None
    at_once: int = 1
    escalate: bool = False
    """Whether there is a node for questions that no one has answered."""


@dataclass(frozen=True, slots=True)
class Came:
    """A signal that has come: its name, its data, and the account that sent it."""

    name: str
    data: Any
    by: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Hold the item with this, then send the question."""

    carry: Carry


@dataclass(frozen=True, slots=True)
class SendAgain:
    """As Ask; but the question may have been sent already."""

    carry: Carry


@dataclass(frozen=True, slots=True)
class Remind:
    """Remind of the question, then hold the item with this."""

    carry: Carry


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold the item with this, and send nothing."""

    carry: Carry


@dataclass(frozen=True, slots=True)
class NoOne:
    """Give the item back: no one can be asked now."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The item is answered."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Escalate:
    """Publish the question to the node for those that no one has answered, and end the item."""

    before: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The item is dead: all were asked."""

    reason: str


Step = Ask | SendAgain | Remind | Wait | NoOne | Finish | Escalate | GiveUp


def step(
    carry: Carry,
    woken: str | None,
    signals: Sequence[Came],
    standings: Sequence[Standing],
    terms: Terms,
    *,
    by: str,
    now: float,
    new_id: str,
) -> Step:
    """Return what to do with an item that has come. `by` is the account of this bot, `new_id` the id of a new round."""
    trusted = [one for one in signals if one.by in (by, carry.by)]
    if (answer := answer_of(carry, trusted)) is not None:
        return Finish(answer)
    chance = _Chance(standings, terms, by, now, new_id)
    if carry.round is None:
        return chance.ask(carry) or NoOne()
    if _is_bounced(trusted, carry.round):
        return chance.pass_on(carry, carry.round)
    names = {one.name for one in trusted if _about(one) in ("", carry.round.id)}
    if not carry.round.sent:
        return _unsent(carry, carry.round, names, terms, now, is_late=woken == "time")
    if woken != "time":
        return Wait(carry)
    if carry.round.left > 0:
        return Remind(_reminded(carry, carry.round, terms, now))
    return chance.pass_on(carry, carry.round)


def _unsent(
    carry: Carry, current: Round, names: set[str], terms: Terms, now: float, *, is_late: bool
) -> Step:
    """Return what to do with a question of which it is not known that it was sent."""
    if SENT in names:
        return Wait(_sent(carry, current, terms, now))
    if is_late or LOOK in names:
        return SendAgain(_with(carry, current, wake=now + SENDING))
    return Wait(carry)


def answer_of(carry: Carry, signals: Sequence[Came]) -> Answer | None:
    """Return the first answer to a question that this item has asked, by one of those who were asked; None if there is none."""
    rounds = carry.rounds()
    for one in signals:
        if one.name != ANSWERED:
            continue
        try:
            answer = msgspec.convert(one.data, Answer)
        except msgspec.ValidationError:
            continue
        if answer.question in rounds:
            return answer
    return None


def _about(one: Came) -> str:
    """Return the round that a signal is about; empty if it names none."""
    about = one.data.get("question", "") if isinstance(one.data, Mapping) else ""
    return about if isinstance(about, str) else ""


def _is_bounced(signals: Sequence[Came], current: Round) -> bool:
    """Return whether the question could be delivered to none of those who are asked."""
    bounced = {
        one.data.get("to")
        for one in signals
        if one.name == BOUNCED and isinstance(one.data, Mapping) and _about(one) == current.id
    }
    return set(current.to) <= bounced


@dataclass(frozen=True, slots=True)
class _Chance:
    """Who can be asked now, and how."""

    standings: Sequence[Standing]
    terms: Terms
    by: str
    now: float
    new_id: str

    def ask(self, carry: Carry) -> Ask | None:
        """Ask those whose turn it is; None if no one can be asked."""
        to = next_asked(self.standings, carry.asked, self.terms.at_once)
        if not to:
            return None
        fresh = Round(self.new_id, to, self.now, self.now + SENDING, 0.0)
        return Ask(Carry(self.by, fresh, carry.before))

    def pass_on(self, carry: Carry, current: Round) -> Step:
        """Pass the question on: to those who were not asked yet, else to the node for such, else end it.

        If there are others who only cannot be asked now, those who were asked keep it until then.
        """
        past = Asked(current.id, current.to, current.since, self.now)
        ended = Carry(self.by, None, (*carry.before, past)[-MAX_PEOPLE:])
        if (asked := self.ask(ended)) is not None:
            return asked
        if self.terms.escalate:
            return Escalate(ended.before)
        if any(one.jid not in ended.asked for one in self.standings):
            wake = self.now + min(self.terms.within, AGAIN)
            return Wait(_with(carry, current, wake=wake))
        count = len(ended.asked)
        return GiveUp(f"nobody has answered; {count} {'was' if count == 1 else 'were'} asked")


def _sent(carry: Carry, current: Round, terms: Terms, now: float) -> Carry:
    """Return what is carried once the question is known to be sent: from now on its time runs."""
    first = min(terms.remind or terms.within, terms.within)
    sent = msgspec.structs.replace(current, sent=True, wake=now + first, left=terms.within - first)
    return msgspec.structs.replace(carry, round=sent)


def _reminded(carry: Carry, current: Round, terms: Terms, now: float) -> Carry:
    span = min(terms.remind or current.left, current.left)
    return _with(
        carry,
        current,
        wake=now + span,
        left=current.left - span,
        reminders=current.reminders + 1,
    )


def _with(carry: Carry, current: Round, **changes: Any) -> Carry:  # noqa: ANN401  fields of any type
    return msgspec.structs.replace(carry, round=msgspec.structs.replace(current, **changes))


def time_left(carry: Carry, now: float) -> float:
    """Return for how many seconds the item is held: until its round goes on."""
    assert carry.round is not None, "only an item that was asked waits"
    return max(0.0, carry.round.wake - now)


def history(before: Iterable[Asked]) -> list[dict[str, object]]:
    """Return who was asked, and when, for the node of questions that no one has answered."""
    return [
        {"asked": list(one.to), "since": round(one.since), "until": round(one.until)}
        for one in before
    ]
