"""What people are asked: the payload of an item as a question, what an item carries while it waits, and the texts that people read.

Pure: no clock, no network. A payload is JSON:

    {"ask": "Ship order 17?", "choices": ["approve", "refuse"], "details": {"customer": "ACME", "amount": 900}}
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

import msgspec

from pubqueue_xeps.wire.refusals import Reject

MAX_ASK: Final = 4000
"""Characters of a question."""
MAX_CHOICE: Final = 80
"""Characters of a choice."""
MAX_CHOICES: Final = 9
"""So that one digit is enough."""
MAX_DETAILS: Final = 40
MAX_DETAIL: Final = 500
"""Characters of the value of a detail; what is longer is shown shortened."""
MAX_REASON: Final = 900
"""Characters of the reason that is kept of an answer."""
MAX_PEOPLE: Final = 100
"""People and rooms that one bot asks. What an item carries has room for each of them once."""


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The held item that gets the answer as a signal."""

    node: str
    id: str


class Question(msgspec.Struct, frozen=True):
    """The payload of an item that people answer. The first choice approves."""

    ask: str
    choices: tuple[str, ...] = ("approve", "refuse")
    details: dict[str, Any] = {}
    signal: Target | None = None
    """The item that waits for the answer, beside or instead of a reply."""


def check(question: Question, nodes: frozenset[str]) -> None:
    """Raise Reject, with a reason without payload, for a question that cannot be asked.

    `nodes` are those in which items may get answers as signals: the bot signals with its own rights, and the publisher of a
    question need not have them.
    """
    choices = question.choices
    if not question.ask.strip():
        raise Reject("the question is empty")
    if len(question.ask) > MAX_ASK:
        raise Reject(f"the question is longer than {MAX_ASK} characters")
    if not 2 <= len(choices) <= MAX_CHOICES:  # noqa: PLR2004  a question has two answers at least
        raise Reject(f"a question has 2 to {MAX_CHOICES} choices, and this has {len(choices)}")
    if any(not key(one) or len(one) > MAX_CHOICE for one in choices):
        raise Reject(f"a choice is empty, or longer than {MAX_CHOICE} characters")
    if any(key(one).isdigit() for one in choices):
        raise Reject("a choice is a number, and choices are numbered")
    if len({key(one) for one in choices}) < len(choices):
        raise Reject("two choices are the same")
    if len(question.details) > MAX_DETAILS:
        raise Reject(f"the question has more than {MAX_DETAILS} details")
    if question.signal is not None and question.signal.node not in nodes:
        raise Reject("the answer would go to a node that this bot may not signal (--signal)")


# The characters of a publisher, as a person sees them.

_TURNING: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that change the direction of what follows: with them, a text can be made to be read as another."""


def shown(text: str) -> str:
    """Return a text without what a client could take for something else than text: controls, and marks of direction."""
    text = _TURNING.sub("", text.replace("\r\n", "\n"))
    return "".join(
        one if one == "\n" or unicodedata.category(one) not in ("Cc", "Cs", "Cn") else "\ufffd"
        for one in text
    )


def plain(text: str) -> str:
    """Return a text on one line."""
    return " ".join(shown(text).split())


def key(text: str) -> str:
    """Return what of a word counts: neither case, nor spaces and marks around it."""
    return plain(text).casefold().strip(" .!?,;:)(\"'")


# What an item carries while it waits.


class Round(msgspec.Struct, frozen=True):
    """A question as it was put to some people, under an id that no one can guess."""

    id: str
    to: tuple[str, ...]
    """Bare JIDs of people and rooms."""
    since: float
    """When it was asked: seconds since 1970, by the bot's clock."""
    wake: float
    """When the item comes again, likewise."""
    left: float
    """How many seconds of the round are left at that time."""
    sent: bool = False
    """Whether it is known that the question was sent."""
    reminders: int = 0


class Asked(msgspec.Struct, frozen=True):
    """A round that is over, without an answer in time."""

    id: str
    to: tuple[str, ...]
    since: float
    until: float


class Carry(msgspec.Struct, frozen=True):
    """What an item carries: the account that asks, the round that is open, and those before."""

    by: str = ""
    """The account of the bot."""
    round: Round | None = None
    before: tuple[Asked, ...] = ()

    @property
    def asked(self) -> frozenset[str]:
        """Who has been asked without result."""
        return frozenset(one for past in self.before for one in past.to)

    def rounds(self) -> dict[str, tuple[str, ...]]:
        """Return who was asked, by the id of the round."""
        found = {past.id: past.to for past in self.before}
        return found if self.round is None else found | {self.round.id: self.round.to}


class Answer(msgspec.Struct, frozen=True):
    """An answer, as the signal to the item has it: of which round, which choice, by whom, when, and why."""

    question: str
    choice: int
    by: str
    at: float
    reason: str = ""


# The id of a round, and the ids and the code that are made of it.

_SIGNS: Final = "23456789bcdfghjkmnpqrstvwxz"
"""Neither vowels, so that no code is a word, nor what is easily mistaken."""


def code(round_id: str) -> str:
    """Return the short name of a question, which a person can type."""
    number, signs = int(round_id, 16), "q"
    for _ in range(4):
        number, sign = divmod(number, len(_SIGNS))
        signs += _SIGNS[sign]
    return signs


def message_id(round_id: str, part: object) -> str:
    """Return the id of a message about a question: answers name it by that (XEP-0461, XEP-0444)."""
    return f"{round_id}.{part}"


def round_of(name: str) -> str:
    """Return the round that a message or an action is about; empty for one of others."""
    before, dot, _ = name.partition(".")
    return before if dot and len(before) == ID_SIGNS and _HEX.fullmatch(before) else ""


def choice_of(name: str) -> int | None:
    """Return the choice that an action names."""
    number = name.partition(".c")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) == 1 else None


ID_SIGNS: Final = 20
_HEX: Final = re.compile("[0-9a-f]+")


# The texts. `name` is the short name of the question.


def text(question: Question, name: str, node: str) -> str:
    """Return a question for every client, with its choices numbered."""
    lines = [f"Question {name} ({plain(node)}):", shown(question.ask).strip(), *details(question)]
    lines += [f"{number}) {plain(one)}" for number, one in enumerate(question.choices, 1)]
    last = plain(question.choices[-1])
    lines.append(
        f'Answer with a number or a word. For a reason, write it behind a colon, such as "{last}: too early".'
        f' With several questions open, begin with its name: "{name} 1".'
    )
    return "\n".join(lines)


def details(question: Question) -> list[str]:
    """Return a line for each detail."""
    return [f"{plain(name)[:80]}: {_value(value)}" for name, value in question.details.items()]


def _value(value: object) -> str:
    words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    words = plain(words)
    return words if len(words) <= MAX_DETAIL else f"{words[:MAX_DETAIL]}…"


def summary(question: Question) -> str:
    """Return the first line of a question, shortened, for a message that reminds of it."""
    first = shown(question.ask).strip().partition("\n")[0]
    return first if len(first) <= MAX_CHOICE else f"{first[:MAX_CHOICE]}…"


def choices_line(question: Question) -> str:
    """Return the choices on one line."""
    return ", ".join(f"{n}) {plain(one)}" for n, one in enumerate(question.choices, 1))


def reminder(question: Question, name: str) -> str:
    """Return the text that reminds of a question."""
    return f"Question {name} is still open: {summary(question)}\n{choices_line(question)}"


def perhaps_again(words: str) -> str:
    """Return a question that may have been sent before."""
    return f"{words}\n(You may have this already: the connection broke when it was sent.)"


def done(question: Question, name: str, choice: int) -> str:
    """Return the message to the person who has answered."""
    return f"Done: {plain(question.choices[choice])} ({name})."


def done_by(question: Question, name: str, answer: Answer) -> str:
    """Return the message to the others who were asked."""
    word = plain(question.choices[answer.choice])
    return f"Question {name} is answered by {answer.by}: {word}. Nothing is left to do."


def passed_on(name: str) -> str:
    """Return the message to a person whose time has ended."""
    return f"Question {name} was open for too long, and is no longer yours."


def gone(name: str) -> str:
    """Return the message to a person whose question was withdrawn."""
    return f"Question {name} was withdrawn. Nothing is left to do."
