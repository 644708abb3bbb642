"""TOUCH, an addition of ours: a worker extends the lock of one message while the work goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.faces.stomp.numbers import BadNumberError, span
from pubqueue.faces.stomp.problems import Message, Problem
from pubqueue.faces.stomp.refusals import LOST, unexpected
from pubqueue.model.decision import Refused, Touched
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Frame
    from pubqueue.faces.stomp.session.answers import Owed
    from pubqueue.faces.stomp.session.client import Client
    from pubqueue.faces.stomp.session.unsettled import Unsettled
    from pubqueue.model.decision import Reply


def touch(client: Client, unsettled: Unsettled, frame: Frame, owed: Owed) -> Problem | None:
    """Extend the lock of the message that the frame names, and of no other; the RECEIPT has the new deadline.

    A lock that is over is answered like a late ACK; a message of a topic has no lock to extend.
    """
    if "transaction" in frame.headers:
        return Problem(Message.NOT_SUPPORTED, "a TOUCH is not part of a transaction")
    found = unsettled.touched_by(frame, owed)
    if found is None or isinstance(found, Problem):
        return found
    try:
        seconds = frame.headers.get("seconds")
        wanted = None if seconds is None else span(seconds)
    except BadNumberError as problem:
        return Problem(Message.BAD_HEADER, f"seconds has to be {problem}")
    one = found.subscription
    request = Touch(client.backend.by(one.address), one.node, (found.item,), wanted, found.token)

    def answer(reply: Reply) -> None:
        if isinstance(reply, Touched):
            client.answers.done(owed, {"deadline": f"{reply.entries[0][1]}"})
        elif isinstance(reply, Refused) and reply.refusal in LOST:
            if (problem := unsettled.late(owed)) is not None:
                client.answers.refuse(owed, problem)
        else:
            client.answers.refuse(owed, unexpected(reply))

    client.ask(one.address, request, owed, answer)
    return None
