"""All changes that a real server may make in a stanza on its way from the service to a client.

- The stanza's namespace: jabber:client to a client, jabber:component:accept from a component
  (XEP-0114 3).
- `xml:lang` on the stanza itself: a server gives it the language of the stream (RFC 6120 8.1.5).
- `to`: ejabberd writes the full JID of the resource that it chose for a message to an account; the
  address of an account is then expected to have become the receiver's own.
- Stanzas of the server itself: presence of the account's own resources (RFC 6121 4.2.2).
- Messages that it has kept for an absent account, marked as such (XEP-0203): ejabberd does here, Prosody does not.

Everything else has to arrive as the service sent it; the scenarios define that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.servers.stub_server import ACCEPT, Stanza, parse

if TYPE_CHECKING:
    from lxml.etree import _Element

CLIENT: Final = "{jabber:client}"
DELAY: Final = "{urn:xmpp:delay}delay"
LANG: Final = "{http://www.w3.org/XML/1998/namespace}lang"


def as_sent(raw: str, jid: str) -> Stanza | None:
    """Return a stanza that `jid` received, as the service sent it; None for those of its server itself."""
    tree = parse(raw)
    for element in (
        tree,
        *tree,
        *tree.iterfind(f"{CLIENT}error/*"),
    ):  # what is carried in it stays a client's
        element.tag = element.tag.replace(CLIENT, f"{{{ACCEPT}}}")
    tree.attrib.pop(LANG, None)
    account = jid.partition("/")[0]
    if tree.tag == f"{{{ACCEPT}}}presence" and tree.get("from", "").partition("/")[0] == account:
        return None
    kept = (delay.get("from") for delay in tree.iter(DELAY))
    if account.partition("@")[2] in kept:
        return None
    assert tree.get("to", "") in {jid, account}, f"{jid} received what is not its own: {raw}"
    return Stanza(raw, tree)


def forgive(expected: _Element, actual: _Element) -> None:
    """Accept a message to an account that is addressed to the resource that got it."""
    to = actual.get("to", "")
    if expected.get("to") == to.partition("/")[0] and actual.tag == f"{{{ACCEPT}}}message":
        actual.set("to", expected.get("to", ""))
