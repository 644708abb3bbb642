"""What a message of a person means: an answer to a question that is open for that person, or what to say instead.

Pure: no clock, no network. An answer that does not name its question counts only if it can mean one question alone; otherwise the
bot asks back. To all others than those who were asked nothing is sent, whatever they write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.people import questions
from pubqueue_xeps.people.questions import MAX_REASON, code, key, plain, round_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HURRY: Final = 2.0
"""Seconds in which a person cannot have read a question: an answer without a name that comes earlier meant the one before."""

WHOLE: Final = 1.0
"""Seconds by which a server's time of a message may be early: some keep whole seconds."""

JUST_NOW: Final = 60.0
"""Seconds for which a question that has ended may still be meant."""

UP: Final = "\U0001f44d"
DOWN: Final = "\U0001f44e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message, as far as it can be an answer. `sender` is a bare JID, in a room the real one of a member."""

    sender: str
    room: str = ""
    at: float
    """When it was sent."""
    id: str = ""
    body: str = ""
    action: str = ""
    """The id of a selected action (XEP-0439)."""
    reply_to: str = ""
    """The id of the message that it replies to (XEP-0461)."""
    reaction_to: str = ""
    reactions: tuple[str, ...] = ()
    form: Mapping[str, str] | None = None
    """The fields of a submitted form (XEP-0004)."""
    thread: str = ""
    stamped: bool = False
    """Whether its time is that of a server, which has kept it."""
    archived: bool = False
    """Whether it is read from the archive, and may have been received before."""


@dataclass(slots=True, kw_only=True)
class Open:
    """A question that is open, or was until recently."""

    id: str
    to: tuple[str, ...]
    choices: tuple[str, ...]
    since: float
    ended: float | None = None
    answered: bool = False
    """Whether an answer is on its way: the question still belongs to the item, and waits for no one."""
    aliases: set[str] = field(default_factory=set)
    """The ids that rooms gave its messages (XEP-0359)."""

    @property
    def is_open(self) -> bool:
        """Whether it can be answered."""
        return self.ended is None and not self.answered


@dataclass(frozen=True, slots=True)
class Chosen:
    """It answers a question."""

    question: str
    choice: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unclear:
    """It names a question, or there is only one, and it is not one of the choices."""

    question: str


@dataclass(frozen=True, slots=True)
class Which:
    """It may mean several questions, or one that has just ended."""

    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Over:
    """It names a question that is not open any more."""

    name: str


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is open for this person."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """It is no answer, or of no one who was asked: nothing is sent."""


Meaning = Chosen | Unclear | Which | Over | Idle | Nothing


def understand(heard: Heard, known: Sequence[Open], people: frozenset[str]) -> Meaning:
    """Return what a message means. `known` are the recent questions, `people` those whom the bot asks."""
    place = heard.room or heard.sender
    mine = [one for one in known if place in one.to]
    if place not in people and not any(one.is_open for one in mine):
        return Nothing()
    if heard.action or heard.form is not None:
        return _marked(heard, mine)
    if heard.reaction_to:
        return _reaction(heard, mine)
    body = heard.body.strip()
    if not body:
        return Nothing()
    return _typed(heard, body, mine)


def _marked(heard: Heard, mine: Sequence[Open]) -> Meaning:
    """Read a selected action, or a form: both name question and choice."""
    if heard.action:
        about, choice, reason = round_of(heard.action), questions.choice_of(heard.action), ""
    else:
        fields = heard.form or {}
        about, reason = fields.get("question", ""), fields.get("reason", "")
        word = fields.get("answer", "")
        choice = int(word) if word.isascii() and word.isdigit() and len(word) == 1 else None
    named = _of(about, mine)
    if named is None:
        return Over(code(about)) if round_of(f"{about}.") else Nothing()
    if not named.is_open:
        return Over(code(named.id))
    if choice is None or choice >= len(named.choices):
        return Unclear(named.id)
    return Chosen(named.id, choice, _reason(reason))


def _reaction(heard: Heard, mine: Sequence[Open]) -> Meaning:
    """Read thumbs: up is the first of two choices, down the second. All others are no answer."""
    named = _by_message(heard.reaction_to, mine)
    if named is None or len(named.choices) != 2:  # noqa: PLR2004  for more there are no signs
        return Nothing()
    signs = {_bare_sign(one) for one in heard.reactions} & {UP, DOWN}
    if len(signs) != 1:
        return Unclear(named.id) if signs else Nothing()
    if not named.is_open:
        return Over(code(named.id))
    return Chosen(named.id, 0 if signs == {UP} else 1)


def _bare_sign(sign: str) -> str:
    """Return a sign without its colour of skin and variant."""
    return re.sub("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]", "", sign.strip())


def _typed(heard: Heard, body: str, mine: Sequence[Open]) -> Meaning:
    """Read a text, which may name its question: by a reply, or by the short name at its beginning."""
    still = [one for one in mine if one.is_open]
    named = _by_message(heard.reply_to, mine) if heard.reply_to else None
    by_code, rest = _by_code(body, mine)
    if by_code is not None:
        if named is not None and named is not by_code:
            return Which(tuple(one.id for one in still))
        named, body = by_code, rest
    if named is not None:
        if not named.is_open:
            return Over(code(named.id))
        return _chosen(named, body) or Unclear(named.id)
    if heard.room:  # people also talk to each other there
        found = _chosen(still[0], body) if len(still) == 1 and not heard.reply_to else None
        return found if found is not None and _may_mean(heard, still[0], mine) else Nothing()
    if not still:
        return Idle()
    alone = len(still) == 1 and not heard.reply_to and _may_mean(heard, still[0], mine)
    if not alone:
        return Which(tuple(one.id for one in still))
    return _chosen(still[0], body) or Unclear(still[0].id)


def _may_mean(heard: Heard, only: Open, mine: Sequence[Open]) -> bool:
    """Return whether a text without a name can only mean the one question that is open.

    It cannot if it was sent before that was asked, or so early that it was meant for one that has just ended, or if its
    thread is that of another question.
    """
    if heard.at + (WHOLE if heard.stamped else 0) < only.since:
        return False
    thread = _of(heard.thread, mine)
    if thread is not None and thread is not only:
        return False
    before = [one for one in mine if not one.is_open]
    lately = any(one.ended is None or heard.at - one.ended < JUST_NOW for one in before)
    return not (lately and heard.at - only.since < HURRY)


def _of(about: str, mine: Sequence[Open]) -> Open | None:
    return next((one for one in mine if about and one.id == about), None)


def _by_message(name: str, mine: Sequence[Open]) -> Open | None:
    alias = next((one for one in mine if name in one.aliases), None)
    return alias or _of(round_of(name), mine)


_WORD: Final = re.compile(r"\s*(q[2-9a-z]{4})\b[\s:,.]*", re.IGNORECASE)


def _by_code(body: str, mine: Sequence[Open]) -> tuple[Open | None, str]:
    """Return the question that a text begins with the name of, if it is one alone, and the rest."""
    found = _WORD.match(body)
    if found is None:
        return None, body
    named = [one for one in mine if code(one.id) == found[1].lower()]
    if len(named) > 1:
        named = [one for one in named if one.is_open]
    return (named[0], body[found.end() :]) if len(named) == 1 else (None, body)


_PARTED: Final = re.compile(r"([^:\n]+)[:\n](.*)", re.DOTALL)


def _chosen(question: Open, body: str) -> Chosen | None:
    """Return the choice of a text: its number or its word, and a reason behind a colon or on further lines.

    A text that only begins with a number is none: "1 moment" approves nothing.
    """
    whole, reason = body, ""
    if (choice := choice_in(whole, question.choices)) is None:
        parts = _PARTED.match(body)
        if parts is None or (choice := choice_in(parts[1], question.choices)) is None:
            return None
        reason = parts[2]
    return Chosen(question.id, choice, _reason(reason))


def choice_in(words: str, choices: Sequence[str]) -> int | None:
    """Return which choice some words are, by number, word or sign; None for none of them."""
    word = key(words)
    if word.isascii() and word.isdigit() and len(word) <= 2:  # noqa: PLR2004  such as 1, or 01
        return int(word) - 1 if 1 <= int(word) <= len(choices) else None
    sign = _bare_sign(words)
    if len(choices) == 2 and sign in (UP, DOWN):  # noqa: PLR2004  as with reactions
        return 0 if sign == UP else 1
    named = [number for number, one in enumerate(choices) if key(one) == word]
    return named[0] if word and len(named) == 1 else None


def _reason(words: str) -> str:
    return plain(words)[:MAX_REASON]


# What is said to what cannot be used, once for each question.


def again(choices: Sequence[str], name: str) -> str:
    """Return the words for a text that is none of the choices."""
    known = ", ".join(f"{number}) {plain(one)}" for number, one in enumerate(choices, 1))
    return f"Sorry, which answer to {name} is that? Please write one of: {known}"


def which(names: Sequence[str]) -> str:
    """Return the words for a text that may mean several questions."""
    if not names:
        return "Sorry, which question is that for?"
    first = names[0]
    known = ", ".join(names)
    return f'Sorry, which question is that for? Please reply to its message, or begin with its name, such as "{first} 1". Open: {known}'


def over(name: str) -> str:
    """Return the words for an answer to a question that is not open any more."""
    return f"Question {name} is not open any more."


IDLE: Final = "No question is open for you."
