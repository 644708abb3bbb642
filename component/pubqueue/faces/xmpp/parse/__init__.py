"""From stanzas to requests: one table keyed by IQ type, child and grandchild.

A parser checks form and completeness only; what is allowed is for the rules to say. It returns a
request of the core, or the stanza error for a request that cannot be understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp import ns
from pubqueue.faces.xmpp.parse import managing, publishing, retrieving, settling, subscribing
from pubqueue.faces.xmpp.refusals import StanzaError, bad_request, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.app.rules import Request
    from pubqueue.faces.xmpp.parse.words import Iq

    Verbs = Mapping[tuple[str, str, str], Callable[[Iq], Request | StanzaError]]


def _cannot(feature: str) -> Callable[[Iq], Request | StanzaError]:
    return lambda _iq: unsupported(feature)


# fmt: off
_P, _O, _Q = ns.PUBSUB, ns.OWNER, ns.QUEUEING

VERBS: Final[Verbs] = {
    ("set", _P, f"{_P} publish"):       publishing.publish,
    ("set", _P, f"{_P} retract"):       settling.retract,
    ("get", _P, f"{_P} retract"):       settling.retract_from_queue,  # as example 6 of XEP-0254 (row 1)
    ("set", _P, f"{_Q} unlock"):        settling.unlock,
    ("get", _P, f"{_Q} unlock"):        settling.unlock,    # as examples 10-15 print it
    ("set", _P, f"{_P} subscribe"):     subscribing.subscribe,
    ("set", _P, f"{_P} unsubscribe"):   subscribing.unsubscribe,
    ("get", _P, f"{_P} options"):       subscribing.get_options,
    ("set", _P, f"{_P} options"):       subscribing.set_options,
    ("set", _P, f"{_P} create"):        managing.create,
    ("get", _P, f"{_P} default"):       _cannot("retrieve-default-sub"),
    ("get", _P, f"{_P} items"):         retrieving.items,
    ("get", _P, f"{_P} subscriptions"): retrieving.my_subscriptions,
    ("get", _P, f"{_P} affiliations"):  retrieving.my_affiliations,
    ("get", _O, f"{_O} configure"):     managing.get_configuration,
    ("set", _O, f"{_O} configure"):     managing.set_configuration,
    ("get", _O, f"{_O} default"):       _cannot("retrieve-default"),
    ("set", _O, f"{_O} delete"):        managing.delete,
    ("set", _O, f"{_O} purge"):         managing.purge,
    ("get", _O, f"{_O} affiliations"):  managing.get_affiliations,
    ("set", _O, f"{_O} affiliations"):  managing.set_affiliations,
    ("get", _O, f"{_O} subscriptions"): _cannot("manage-subscriptions"),
    ("set", _O, f"{_O} subscriptions"): _cannot("manage-subscriptions"),
}
# fmt: on

BY_SET: Final = {
    key: parser
    for key, parser in VERBS.items()
    if key not in {("get", _P, f"{_P} retract"), ("get", _P, f"{_Q} unlock")}
}
"""The same without the `get` that changes something, which RFC 6120 8.2.3 knows nothing of."""

ACCOMPANIED: Final = frozenset(
    {
        publishing.publish,
        subscribing.subscribe,
        managing.create,
        settling.retract,
        settling.unlock,
        retrieving.items,
    }
)
"""What may stand with something beside it; each of them judges what that is."""

_UNKNOWN: Final = bad_request(text="this is no request of XEP-0060 or XEP-0254")


def parse(verbs: Verbs, kind: str, namespace: str, iq: Iq) -> Request | StanzaError:
    """Read a pubsub request of either namespace, if it is one of the `verbs`."""
    if not iq.child.children:
        return _UNKNOWN
    parser = verbs.get((kind, namespace, iq.verb.tag))
    if parser is None:
        return _UNKNOWN
    if len(iq.child.children) > 1 and parser not in ACCOMPANIED:
        return bad_request(text="beside this request stands another")
    return parser(iq)
