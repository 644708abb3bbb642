"""Publishing by message (urn:xmpp:qos): the publish is carried at a level, and may outlive the process until it is answered."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import fromstring

from pubqueue_xeps.client.ask import Denied
from pubqueue_xeps.client.pace import BytesInFlight, NoRoom
from pubqueue_xeps.client.publications import MAX_PAUSE, request
from pubqueue_xeps.errors import NotConfirmed, PubqueueError, Refused
from pubqueue_xeps.log import log
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.ns import CLIENT, PUBSUB
from pubqueue_xeps.wire.publication import Published
from pubqueue_xeps.wire.xml_text import attributes
from pubqueue_xeps.xep_qos import XEP_QOS, Retry, qos

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_xeps.client.connection_keeper import ConnectionKeeper
    from pubqueue_xeps.client.pace import Timings
    from pubqueue_xeps.client.xmpp_client import Client
    from pubqueue_xeps.wire.publication import NewItem
    from pubqueue_xeps.xep_qos import Level, Pending, Sent
    from pubqueue_xeps.xep_qos.pending_file import PendingFile

FOR_EVER: Final = 1 << 60
"""The number of attempts; the timeout of a publish ends them."""

MESSAGE: Final = f"{{{CLIENT}}}message"
PUBLISH: Final = f"{{{PUBSUB}}}pubsub/{{{PUBSUB}}}publish"
ITEM: Final = f"{{{PUBSUB}}}item"
REMEMBERED: Final = 1000
"""Publishes below `assured` whose refusal can still be logged with node and id."""


class CarriedPublications:
    """Publishes by message to the services of a publisher, over its stream; each has room of its own for what is in flight.

    The plugin is registered at once if there is a file of pending publishes, else at the first publish.
    """

    def __init__(
        self,
        keeper: ConnectionKeeper,
        services: Sequence[str],
        timings: Timings,
        *,
        largest: int,
        file: PendingFile | None,
    ) -> None:
        self._keeper, self._timings = keeper, timings
        self._largest, self._file = largest, file
        self._client: Client | None = None
        self._plugin: XEP_QOS | None = None
        self._rooms = {service: BytesInFlight() for service in services}
        self._lately: dict[str, tuple[str, str, str]] = {}

    def equip(self, client: Client) -> None:
        """Set the client, before it logs in."""
        self._client = client
        if self._file is not None:
            self._add_plugin()

    def close(self) -> None:
        """Close the file; pending publishes stay in it."""
        if self._plugin is not None and self._client is not None:
            plugins: Any = self._client.plugin
            plugins.disable(XEP_QOS.name)
        elif self._file is not None:
            self._file.close()
        self._plugin = None

    def pending(self) -> list[Pending]:
        """Return the publishes that have no final answer yet, oldest first."""
        return [] if self._plugin is None else self._plugin.pending()

    def read(self, stanza: Element) -> bool:
        """Read an answer to a publish, or the refusal of one that was not assured."""
        if self._plugin is None:
            return False
        if stanza.tag == MESSAGE and stanza.get("type") == "error":
            return self._read_refusal(stanza)
        return self._plugin.read(stanza)

    async def publish(
        self,
        node: str,
        new: NewItem,
        level: Level,
        timeout: float,  # noqa: ASYNC109 - a promise
        service: str,
    ) -> Published:
        """Return when the publish is answered at its level; `timeout` is in seconds.

        Raises NoSuchNode, NotAQueue or Refused if the service refuses it; NotConfirmed or DeliveryUnknown if it is
        unknown whether the item was published; PendingFailed if the file cannot be written; TypeError or ValueError for
        an item that cannot be sent.
        """
        name, question = request(node, new, self._largest, "")
        plugin = self._plugin or self._add_plugin()
        # a repeated publish is the same message, and continues from its last step
        words = f"{level}{question.inner}".encode()
        msg_id = hashlib.blake2b(words, digest_size=16).hexdigest()
        message = f'<message xmlns="{CLIENT}"{attributes(id=msg_id)}>{question.inner}</message>'
        self._note(msg_id, service, node, name)
        try:
            async with self._rooms[service].of(len(question.body), timeout):
                await plugin.carry(service, message, level, msg_id, timeout)
        except Denied as no:
            raise self._failure(no, service, node, name) from None
        except NoRoom:
            raise NotConfirmed(
                f"{question} was given up after {timeout:g} seconds: others are not confirmed either.",
                node=node,
                id=name,
            ) from None
        except PubqueueError as error:
            error.node, error.id = node, name
            raise
        return Published(node, name, service=service)

    def _add_plugin(self) -> XEP_QOS:
        assert self._client is not None, "the publisher is open"
        retry = Retry(first=self._timings.answer, longest=MAX_PAUSE, attempts=FOR_EVER)
        mine: dict[str, Any] = {"pending": self._file, "retry": retry, "trust": lambda _jid: False}
        self._client.register_plugin(XEP_QOS.name, mine, module="pubqueue_xeps.xep_qos")
        plugin = qos(self._client)
        plugin.send_text = lambda text: self._keeper.send(text.encode())
        plugin.when_silent = self._keeper.doubt
        self._client.add_event_handler("qos_sent", self._log_sent)
        self._client.add_event_handler("qos_failed", self._log_failed)
        self._plugin = plugin
        return plugin

    def _note(self, msg_id: str, service: str, node: str, name: str) -> None:
        self._lately[msg_id] = service, node, name
        if len(self._lately) > REMEMBERED:
            del self._lately[next(iter(self._lately))]

    def _read_refusal(self, message: Element) -> bool:
        found = self._lately.get(message.get("id", ""))
        if found is None or message.get("from") != found[0]:
            return False
        service, node, name = found
        why = refusals.read(message).summary
        log.error("publisher.refused", node=node, id=name, why=why, service=service)
        return True

    @staticmethod
    def _failure(no: Denied, service: str, node: str, name: str) -> PubqueueError:
        refusal = no.refusal
        if refusal.condition == "feature-not-implemented" and not refusal.detail:
            why = f"{service} refused the publish of {name!r}: {refusal.summary}."
            return Refused(why, condition=refusal.condition, node=node, id=name)
        error = refusals.failure(refusal, service, node)
        error.id = name
        return error

    @staticmethod
    def _log_sent(sent: Sent) -> None:
        log.info("publisher.resumed", msg_id=sent.msg_id, level=sent.level)

    @staticmethod
    def _log_failed(failed: tuple[Pending, PubqueueError]) -> None:
        pending, error = failed
        publish = fromstring(pending.message).find(PUBLISH)  # noqa: S314 - our own XML
        node = "" if publish is None else publish.get("node", "")
        item = None if publish is None else publish.find(ITEM)
        name = "" if item is None else item.get("id", "")
        log.error("publisher.refused", node=node, id=name, why=str(error), service=pending.to)
