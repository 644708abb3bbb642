"""What reading costs: processor time for each byte, of stanzas made to be expensive, in units of a plain publish.

A unit is what a publish of the same size takes that has all its bytes in one text and is read the ordinary way, in
the same process, a moment before: so the bounds hold on slow machines too.
"""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.requests import VERBS, find
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.model.entities import Jid, Principal
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE: Final = 128 * 1024
"""Bytes of each stanza; each is also made of half as many."""

MAX_COST: Final = 200.0
"""Units that any may take. The dearest that are read take some ten of them, what was quadratic took thousands."""

GROWTH: Final = 3.0
"""Times what half as many bytes take; twice is linear, four times is quadratic."""

CHEAP: Final = 10.0
"""Units below which growth says nothing: it is all noise."""

ROUNDS: Final = 5

HEADER: Final = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' id='1' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
BY: Final = Principal(Jid("eve@localhost/x"))


def _iq(inner: str, words: str = "") -> str:
    return (
        f"<iq type='set' id='1' from='{BY.jid}' to='queue.localhost'>"
        f"<pubsub xmlns='{ns.PUBSUB}'{words}><publish node='n'>{inner}</publish></pubsub></iq>"
    )


def _declared(byte_count: int) -> str:
    return "".join(f" xmlns:p{n}='urn:x'" for n in range(byte_count // 16))


def _job(inner: str, words: str = "") -> str:
    return f"<item><job xmlns='urn:work'{words}>{inner}</job></item>"


PAD: Final = " " * 114
"""So that a stanza has as many items as are read, and not more."""

# fmt: off
KINDS: Final[dict[str, Callable[[int], str]]] = {
    "declarations times items":        lambda n: _iq(f"<item><a/>{PAD}</item>" * (n // 262), _declared(n // 2)),
    "as many as may be times items":   lambda n: _iq(f"<item><a/>{PAD}</item>" * (n // 131), _declared(4000)),
    "declarations that are used":  lambda n: _iq(f"<item><a>p1:p2:p3:</a>{PAD}</item>" * (n // 144), _declared(4000)),
    "a namespace times elements":      lambda n: _iq(f"<item><a xmlns='{'u' * (n // 2)}'>{'<b/>' * (n // 8)}</a></item>"),
    "a namespace times attributes":    lambda n: _iq(_job("<b p:c=''/>" * (n // 22), f" xmlns:p='{'u' * (n // 2)}'")),
    "a namespace times items":         lambda n: _iq(f"<item><p:a/>{PAD}</item>" * (n // 264), f" xmlns:p='{'u' * (n // 2)}'"),
    "children":                    lambda n: _iq("<a/>" * (n // 4)),
    "items":                       lambda n: _iq("<item/>" * (n // 7)),
    "elements of a payload":       lambda n: _iq(_job("<a/>" * (n // 4))),
    "texts between elements":      lambda n: _iq(_job("x<a/>" * (n // 5))),
    "levels":                      lambda n: _iq(_job("<a>" * (n // 7) + "</a>" * (n // 7))),
    "ends of stanzas":             lambda n: _iq(_job("<iq></iq>" * (n // 9))),
    "attributes":                  lambda n: _iq(_job(f"<a {' '.join(f'b{i}=``' for i in range(n // 10))}/>".replace("`", "'"))),
    "colons":                      lambda n: _iq(_job("a:" * (n // 2)), _declared(4000)),
    "entities":                    lambda n: _iq(_job("&amp;" * (n // 5))),
}
# fmt: on


def cost(text: str, pieces: int = 1) -> float:
    """Return the seconds of the processor that it takes to read the stanza up to its request or refusal."""
    parser = StreamParser()
    data = text.encode()
    parser.feed(HEADER.encode() + data[:1])  # the ordinary way
    size = max(1, len(data) // pieces)
    began = thread_time()
    stanzas = [one for at in range(1, len(data), size) for one in parser.feed(data[at : at + size])]
    (stanza,) = stanzas
    assert not isinstance(stanza, Single)
    if not stanza.excess:
        find(VERBS, "set", stanza.top.children[0]).read(Iq(stanza, BY, lambda: "new"))
    return thread_time() - began


def units(make: Callable[[int], str], size: int = SIZE) -> tuple[float, float]:
    """Return what a stanza takes in units, and how many times what half of it takes.

    Whatever else the machine does makes a try dearer and hardly ever cheaper. So each of the three is the least of several
    tries, which take turns; the least of the quotients would be that of the try in which the smaller one was disturbed.
    """
    plain, whole, half = _iq(_job("x" * size)), make(size), make(size // 2)
    tries = [(cost(plain), cost(whole), cost(half)) for _ in range(ROUNDS)]
    unit, one, other = (max(min(taken), 1e-6) for taken in zip(*tries, strict=True))
    return one / unit, one / other


def is_too_dear(taken: float, growth: float) -> bool:
    """Say whether a stanza takes more units than any may, or more than in proportion to its bytes."""
    return taken > MAX_COST or (taken > CHEAP and growth > GROWTH)


def too_dear(size: int = SIZE) -> dict[str, str]:
    """Return which kinds take more than they may, and what they take."""
    found = {}
    for name, make in KINDS.items():
        taken, growth = units(make, size)
        if is_too_dear(taken, growth):
            found[name] = f"{taken:.0f} units, {growth:.1f} times what half of it takes"
    return found
