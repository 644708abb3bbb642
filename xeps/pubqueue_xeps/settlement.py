"""Retract and unlock, asked until there is an answer that counts.

A retract counts when the service has said so twice: by the answer and by the delete notification
(XEP-0254 section 2.3). Each may be lost with a connection. So every question is repeated when its
answer, or the notification, does not come in time; that is harmless, because the second retract of
an item that is gone changes nothing. What the answer to a *repeated* retract means is another
matter: item-not-found then says that an earlier one was carried out.

Requests are written as bytes and answers read from bare elements: this is the hot path.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal
from xml.sax.saxutils import quoteattr

from pubqueue_xeps.errors import NotConfirmed, Refused
from pubqueue_xeps.ns import PUBSUB, QUEUEING
from pubqueue_xeps.xep_0254.refusal import TRANSIENT, conditions

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.line import Line
    from pubqueue_xeps.timings import Timings

Verb = Literal["retract", "unlock"]
SHAPES: Final[dict[Verb, tuple[str, str]]] = {
    "retract": ("<retract", "</retract>"),
    "unlock": (f"<unlock xmlns='{QUEUEING}'", "</unlock>"),
}


class Answer(Enum):
    """What the service says to a retract or an unlock."""

    DONE = "done"
    GONE = "the item does not exist"
    LOST = "the lock is not ours"
    AGAIN = "no answer that counts"


# fmt: off
ANSWERS: Final[dict[str, Answer]] = {
    "item-not-found":     Answer.GONE,
    "conflict":           Answer.LOST,   # locked by another
    "unexpected-request": Answer.LOST,   # free: the lock timed out
    "forbidden":          Answer.LOST,   # the service has forgotten that it was ours
    "not-authorized":     Answer.LOST,
} | dict.fromkeys(TRANSIENT, Answer.AGAIN)
# fmt: on


class Question:
    """One retract or unlock on its way, over all its repetitions."""

    __slots__ = ("accepted", "asked", "item", "noticed", "reply", "verb")

    def __init__(self, verb: Verb, item: str) -> None:
        self.verb = verb
        self.item = item
        self.asked = 0
        self.accepted = False
        self.noticed = verb == "unlock"  # the answer alone frees the item
        self.reply: asyncio.Future[Answer]

    def resolve(self, answer: Answer) -> None:
        """Wake who waits for the reply, if it is the first."""
        if not self.reply.done():
            self.reply.set_result(answer)

    def judge(self, answer: Answer) -> Answer:
        """Say what an answer means, given what was asked before."""
        if answer is Answer.GONE and (self.accepted or self.asked > 1):
            return Answer.DONE
        return answer


class Settlements:
    """Asks the service of one node to retract and unlock items.

    `on_final(id)` is called as soon as an answer is read that ends our hold on the item: before
    the next stanza is, which may be a new delivery of the same id.
    """

    def __init__(
        self,
        service: str,
        node: str,
        line: Line,
        timings: Timings,
        on_final: Callable[[str], None],
    ) -> None:
        self._line = line
        self._timings = timings
        self._on_final = on_final
        self._pending: dict[str, Question] = {}
        self._questions: dict[str, Question] = {}
        self._heads = {
            verb: f"'><pubsub xmlns='{PUBSUB}'>{opening} node={quoteattr(node)}><item id="
            for verb, (opening, _) in SHAPES.items()
        }
        self._start = f"<iq type='set' to={quoteattr(service)} id='"

    async def settle(self, verb: Verb, item: str) -> Answer:
        """Ask until the answer counts: DONE, GONE or LOST.

        Raises Refused when the service refuses for another reason, and NotConfirmed when patience
        or the connection is at its end.
        """
        question = Question(verb, item)
        self._questions[item] = question
        try:
            async with asyncio.timeout(self._timings.patience):
                while (answer := await self._ask(question)) is Answer.AGAIN:
                    await asyncio.sleep(self._timings.backoff(question.asked))
                    await self._line.ready()
                return answer
        except TimeoutError:
            raise NotConfirmed(f"The {verb} of {item!r} was not confirmed in time.") from None
        finally:
            if self._questions.get(item) is question:
                del self._questions[item]

    def asking(self, item: str) -> bool:
        """Whether a question about the item is on its way, whose answer will say what it is."""
        return item in self._questions

    def give_back(self, item: str) -> None:
        """Unlock an item that nobody has begun; the answer is of no interest."""
        self._line.send(self._render("unlock", item, self._line.new_id()))

    def read_answer(self, iq: Element) -> bool:
        """Take the answer to one of our questions; False if it is to none."""
        question = self._pending.get(iq.get("id", ""))
        if question is None:
            return False
        if iq.get("type") == "result":
            question.accepted = True
            self._on_final(question.item)
            if question.noticed:
                question.resolve(Answer.DONE)
        else:
            self._refuse(question, iq)
        return True

    def read_retract(self, item: str) -> None:
        """Take a delete notification."""
        question = self._questions.get(item)
        if question is not None:
            question.noticed = True
            if question.accepted:
                question.resolve(Answer.DONE)

    def read_delivery(self, item: str) -> None:
        """Take it that `item` is there anew: one whose retract was accepted is gone for certain."""
        question = self._questions.get(item)
        if question is not None and question.accepted:
            question.resolve(Answer.DONE)

    def cut(self) -> None:
        """Give up waiting: the connection is lost, and all answers with it."""
        for question in self._pending.values():
            question.resolve(Answer.AGAIN)

    async def _ask(self, question: Question) -> Answer:
        id = self._line.new_id()  # noqa: A001 - the name of the attribute
        question.reply = asyncio.get_running_loop().create_future()
        self._pending[id] = question
        try:
            if not self._line.send(self._render(question.verb, question.item, id)):
                return Answer.AGAIN
            question.asked += 1
            async with asyncio.timeout(self._timings.answer):
                return question.judge(await question.reply)
        except TimeoutError:
            return Answer.AGAIN
        finally:
            del self._pending[id]

    def _render(self, verb: Verb, item: str, id: str) -> bytes:  # noqa: A002
        head, tail = self._heads[verb], SHAPES[verb][1]
        return f"{self._start}{id}{head}{quoteattr(item)}/>{tail}</pubsub></iq>".encode()

    def _refuse(self, question: Question, iq: Element) -> None:
        defined, specific = conditions(iq)
        answer = ANSWERS.get(defined)
        if answer is None:
            if not question.reply.done():
                why = f"{defined}, {specific}" if specific else defined
                refused = Refused(f"The {question.verb} of {question.item!r} was refused: {why}.")
                question.reply.set_exception(refused)
            return
        if answer is not Answer.AGAIN:
            self._on_final(question.item)
        question.resolve(answer)
