"""Requests that are read without building elements: nearly all requests on a busy day.

They are a publish or a retract of one item, a publish of one item in a message that an IQ carries (urn:xmpp:qos), and the
request to deliver a kept message. `single_reader` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from pubqueue.faces.xmpp.xml.text import echo
from pubqueue.model.entities import Draft, ItemId, NodeName
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.parse.carrying import Step
    from pubqueue.faces.xmpp.stream.start_tags import Sender
    from pubqueue.model.entities import Principal

COST: Final = 20e-6
COST_OF_A_BYTE: Final = 15e-9
"""Seconds that such a request counts if it is refused, in all and for each byte: about its true cost, which would take as long to measure."""

IQ_END: Final = b"</iq>"
END_LENGTH: Final = len(IQ_END)


class Single(Struct, frozen=True, gc=False):
    """A publish or a retract of one item, with what its answer needs. A retract has no payload."""

    raw: bytes
    length: int
    """The bytes of `raw`."""
    sender: Sender
    address: bytes
    """The attributes of a reply: the request's id, from and to swapped (RFC 6120 8.2.3)."""
    node: NodeName
    item: ItemId | None
    payload: bytes | None
    space: str
    answer: str
    notify: bool

    def request(self, by: Principal, new_id: Callable[[], str]) -> Publish | Settle:
        """Return the request; an item without an id gets a new one."""
        item = ItemId(new_id()) if self.item is None else self.item
        if self.payload is None:
            return Settle(by, self.node, (item,), Verb.RETRACT, self.notify)
        return Publish(by, self.node, (Draft(item, self.payload, type=self.space),))

    @property
    def cost(self) -> float:
        """Seconds that it counts if it is refused."""
        return COST + COST_OF_A_BYTE * self.length

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        return self._child("pubsub", ns.PUBSUB)

    def _child(self, name: str, namespace: str) -> bytes:
        return echo(self.raw[self.raw.index(b">") + 1 : -END_LENGTH], name, namespace)


@final
class SingleMessage(Single, frozen=True, gc=False):
    """A step of a message that publishes one item, with what its answer needs; to deliver one, there is no item.

    `start` and `stop` are where the message is in the bytes of the IQ.
    """

    step: Step
    iq_id: str
    msg_id: str = ""
    message_id: str = ""
    start: int = 0
    stop: int = 0

    def publish(self, by: Principal, new_id: Callable[[], str]) -> Publish:
        """Return what the message asks."""
        request = self.request(by, new_id)
        assert isinstance(request, Publish)
        return request

    @property
    def message(self) -> bytes:
        """The bytes of the message."""
        return self.raw[self.start : self.stop]

    @property
    def byte_count(self) -> int:
        """The bytes of memory that it takes."""
        return self.length + len(self.payload or b"")

    def echo(self) -> bytes:
        """Return the child of the IQ, for an error to repeat."""
        return self._child(self.step.value, ns.QOS)
