"""The table of all requests, keyed by the type of the IQ, its child, and its grandchild.

A row has a reader for the request and a renderer for its reply. A reader checks only that the request is well-formed and complete; rights
are checked by the rules. It returns a request to the core, a stanza error if the request is malformed, or the answer itself if the core
is not needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from pubqueue.faces.xmpp.commands import requests
from pubqueue.faces.xmpp.parse import (
    approving,
    committing,
    managing,
    publishing,
    reading,
    retrieving,
    settling,
    subscribing,
)
from pubqueue.faces.xmpp.refusals import (
    SERVICE_UNAVAILABLE,
    StanzaError,
    bad_request,
    unsupported,
)
from pubqueue.faces.xmpp.render import disco, pages, replies, transactions
from pubqueue.model.entities import Millis
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.engine.table import Request
    from pubqueue.faces.xmpp.parse.iq import Asked, Iq
    from pubqueue.faces.xmpp.xml.stanza import Element
    from pubqueue.model.decision import Refused

Reader = Callable[["Iq"], "Request | Asked | StanzaError | bytes"]
Key = tuple[str, str, str]
Renderer = Callable[[Any, str], bytes]
"""Renders a reply, of the request's type, to the contents of the IQ result, given the service's name."""


class Instead(Protocol):
    """Returns what an error contains instead of the request, given the refusal and the request; None for the request."""

    def __call__(self, refused: Refused, *, asked: Element) -> bytes | None:
        """Return it."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Reads and answers one kind of request."""

    read: Reader
    write: Renderer = replies.done
    briefly: Mapping[str, Renderer] = field(default_factory=dict)
    """The renderers for requests with an attribute that selects another answer."""
    refuse: Instead | None = None
    """Returns what an error contains instead of the request's child; None: it repeats the child."""
    accompanied: bool = False
    """Whether the IQ may have other children, which its reader checks."""
    lax: bool = False
    """Whether a `get` changes something, which RFC 6120 8.2.3 forbids."""


def _unsupported(feature: str) -> Handler:
    return Handler(lambda _iq: unsupported(feature))


def _constant(answer: Callable[[], str]) -> Handler:
    """Return the handler of a request that does not need the core. slixmpp would answer any number of them."""
    return Handler(lambda _iq: answer().encode())


def _time() -> str:
    return replies.entity_time(Millis(time.time_ns() // 1_000_000))


PUBLISH: Final = Handler(
    publishing.publish,
    replies.published,
    briefly={"short": replies.published_briefly, "known": replies.published_if_known},
    accompanied=True,
)
RETRACT: Final = Handler(settling.retract, briefly={"known": replies.withdrawn}, accompanied=True)

# fmt: off
_P, _O, _Q, _X = f"{ns.PUBSUB} pubsub", f"{ns.OWNER} pubsub", ns.QUEUEING, ns.PUBQUEUE
_p, _o = ns.PUBSUB, ns.OWNER

VERBS: Final[Mapping[Key, Handler]] = {
    ("set", _P, f"{_p} publish"):       PUBLISH,
    ("set", _P, f"{_p} retract"):       RETRACT,
    ("get", _P, f"{_p} retract"):       Handler(settling.retract_from_queue, accompanied=True, lax=True),  # XEP-0254 example 6 (row 1)
    ("set", _P, f"{_Q} unlock"):        Handler(settling.unlock, accompanied=True),
    ("get", _P, f"{_Q} unlock"):        Handler(settling.unlock, accompanied=True, lax=True),  # as in examples 10-15
    ("set", _P, f"{_p} subscribe"):     Handler(subscribing.subscribe, replies.subscribed, refuse=replies.wanted, accompanied=True),
    ("set", _P, f"{_p} unsubscribe"):   Handler(subscribing.unsubscribe, replies.unsubscribed),
    ("get", _P, f"{_p} options"):       Handler(subscribing.get_options, replies.options),
    ("set", _P, f"{_p} options"):       Handler(subscribing.set_options, replies.options),
    ("set", _P, f"{_p} create"):        Handler(managing.create, replies.created, accompanied=True),
    ("get", _P, f"{_p} default"):       Handler(subscribing.get_default_options, replies.default_options),
    ("get", _P, f"{_p} items"):         Handler(retrieving.items, replies.retrieved, accompanied=True),
    ("get", _P, f"{_p} subscriptions"): Handler(retrieving.my_subscriptions, replies.my_subscriptions, accompanied=True),
    ("get", _P, f"{_p} affiliations"):  Handler(retrieving.my_affiliations, replies.my_affiliations, accompanied=True),
    ("get", _O, f"{_o} configure"):     Handler(managing.get_configuration, replies.configuration),
    ("set", _O, f"{_o} configure"):     Handler(managing.set_configuration),
    ("get", _O, f"{_o} default"):       _constant(replies.default_configuration),
    ("set", _O, f"{_o} delete"):        Handler(managing.delete),
    ("set", _O, f"{_o} purge"):         Handler(managing.purge),
    ("get", _O, f"{_o} affiliations"):  Handler(managing.get_affiliations, replies.affiliations, accompanied=True),
    ("set", _O, f"{_o} affiliations"):  Handler(managing.set_affiliations, refuse=replies.unchanged),
    ("get", _O, f"{_o} subscriptions"): Handler(approving.get_subscriptions, replies.node_subscriptions, accompanied=True),
    ("set", _O, f"{_o} subscriptions"): Handler(approving.set_subscriptions, refuse=replies.standing),

    ("set", f"{_X} touch", ""):        Handler(settling.touch, replies.touched),
    ("set", f"{_X} redrive", ""):      Handler(settling.redrive, replies.redriven),
    ("set", f"{_X} commit", ""):       Handler(committing.commit, transactions.committed),
    ("set", f"{_X} abort", ""):        Handler(committing.abort),
    ("get", f"{_X} txn", ""):          Handler(committing.ask, transactions.last_version),
    ("get", f"{_X} transactions", ""): Handler(committing.records, transactions.transactions),
    ("get", f"{_X} events", ""):       Handler(reading.events, pages.events),
    ("get", f"{_X} items", ""):        Handler(reading.items, pages.items),
    ("get", f"{_X} nodes", ""):        Handler(reading.nodes, pages.nodes),

    ("get", f"{ns.DISCO_INFO} query", ""):  Handler(requests.disco_info, disco.node_info),
    ("get", f"{ns.DISCO_ITEMS} query", ""): Handler(requests.disco_items, disco.items),
    ("get", f"{ns.PING} ping", ""):         _constant(str),  # XEP-0199: the result is empty
    ("get", f"{ns.VERSION} query", ""):     _constant(replies.software_version),
    ("get", f"{ns.TIME} time", ""):         _constant(_time),
    ("set", f"{ns.COMMANDS} command", ""):  Handler(requests.step),
    ("get", f"{ns.COMMANDS} command", ""):  Handler(lambda _iq: bad_request(text="a command must be an IQ of type set")),
}
# fmt: on

STRICT: Final = {key: verb for key, verb in VERBS.items() if not verb.lax}
"""The table without the `get`s that change something."""

_UNKNOWN: Final = Handler(
    lambda _iq: bad_request(text="this is not a request of XEP-0060 or XEP-0254"), accompanied=True
)
_NOT_SERVED: Final = Handler(lambda _iq: SERVICE_UNAVAILABLE)
_BESIDE: Final = Handler(lambda _iq: bad_request(text="the stanza contains another request"))


def find(verbs: Mapping[Key, Handler], kind: str, child: Element) -> Handler:
    """Return the row for a request, or a row that refuses unknown requests."""
    if child.tag not in {_P, _O}:
        return verbs.get((kind, child.tag, ""), _NOT_SERVED)
    grandchildren = child.children
    tag = grandchildren[0].tag if grandchildren else ""
    verb = verbs.get((kind, child.tag, tag), _UNKNOWN)
    return verb if verb.accompanied or len(grandchildren) == 1 else _BESIDE
