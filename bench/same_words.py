"""The bare component with the stanzas of pubqueue: `python -m bench.same_words`.

It does no more than `lean` and stores as little, but writes its stanzas like pubqueue, with the same elements and
attributes. Its speed, and its cost for the server, are the limit that these stanzas set.
"""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Final
from xml.sax.saxutils import quoteattr

import uvloop

from bench.lean import PUBLISH, PUBSUB, RETRACT, SUBSCRIBE, Lean, serve

OURS: Final = "urn:x-pubqueue:0"
HINT: Final = '<no-store xmlns="urn:xmpp:hints"/>'
LOCK_TIMEOUT: Final = 300


class SameWords(Lean):
    """The lean component with other stanzas."""

    def __init__(self, jid: str, secret: str, requests: int) -> None:
        super().__init__(jid, secret, requests)
        self._short = False
        self._publisher = ""
        self._ids = (f"{uuid.uuid4().hex}-{n:08x}" for n in itertools.count(1))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == PUBLISH:
            self._short = attributes.get(f"{OURS} answer") == "short"
        super()._start(name, attributes)

    def _answer(self) -> None:
        sender, iq_id = quoteattr(self._stanza["from"]), quoteattr(self._stanza["id"])
        item = quoteattr(self._item)
        result = f'<iq type="result" id={iq_id} {self._from} to={sender}'
        if self._operation == PUBLISH and not self._short:
            said = f'<publish node="jobs"><item id={item}/></publish>'
            self._send(f'{result}><pubsub xmlns="{PUBSUB}">{said}</pubsub></iq>')
        else:
            self._send(f"{result}/>")
        if self._operation == PUBLISH:
            payload = self._buffer[self._payload_from - self._base : self._payload_to - self._base]
            self._publisher = quoteattr(self._stanza["from"].partition("/")[0])
            self._waiting.append((item, payload))
        elif self._operation == RETRACT:
            self._send(
                f'<message {self._from} to={sender} id="{next(self._ids)}">'
                f'<event xmlns="{PUBSUB}#event"><items node="jobs"><retract id={item}/></items>'
                f"</event>{HINT}</message>"
            )
            self._free.append(sender)
        elif self._operation == SUBSCRIBE:
            self._free.extend([sender] * self._requests)
        while self._waiting and self._free:
            self._deliver(self._free.popleft(), *self._waiting.popleft())

    def _deliver(self, worker: str, item: str, payload: bytes) -> None:
        self._messages += 1
        now = time.time()
        self._send(
            f'<message {self._from} to={worker} id="pq-{self._messages}-{self._messages}-0a1b2c3d">'
            f'<event xmlns="{PUBSUB}#event"><items node="jobs">'
            f"<item id={item} publisher={self._publisher}>"
        )
        self._out.append(payload)
        self._send(
            f'</item></items></event><lock xmlns="{OURS}" token="{self._messages}" '
            f'deadline="{_stamp(now + LOCK_TIMEOUT)}" attempt="1" published="{_stamp(now)}"/>'
            f"{HINT}</message>"
        )


def _stamp(moment: float) -> str:
    return (
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(moment))}.{int(moment * 1000) % 1000:03}Z"
    )


if __name__ == "__main__":
    uvloop.run(serve(SameWords))
