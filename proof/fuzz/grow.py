"""Makes stanzas: useful ones, real ones with a few changes, trees of random words, and what is no request."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import TYPE_CHECKING, Final, TypeVar

from harness.servers.stub_server import ACCEPT
from harness.stanzas.random_requests import ITEMS, ODD, TAGS, window
from lxml import etree

from proof.fuzz.vocabulary import names, real
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

T = TypeVar("T")

SERVICE: Final = "queue.localhost"
NODES: Final = ("jobs", "jobs", "jobs", "plain", "closed", "dead", "new", "none")
WORKERS: Final = ("bee@localhost/one", "ant@localhost/two", "wasp@localhost")
PEOPLE: Final = (
    *WORKERS,
    *("boss@localhost/desk", "etl@localhost/spark", "eve@elsewhere.example/x", "ant@localhost"),
    "component.example.org",
)
CONDITIONS: Final = ("service-unavailable", "gone", "recipient-unavailable", "policy-violation")
PRESENCES: Final = (
    *(None, None, "unavailable", "unavailable", "subscribe", "subscribed", "unsubscribe"),
    *("unsubscribed", "probe", "error", "odd"),
)
SENSIBLE: Final = 0.85


def stanza(kind: str, sender: str, **attributes: str) -> etree._Element:
    """Return a stanza to the service."""
    made = etree.Element(f"{{{ACCEPT}}}{kind}", nsmap={None: ACCEPT})
    made.attrib.update({"from": sender, "to": SERVICE} | attributes)
    return made


class Grower:
    """Makes one stanza after the other. `held` are the last deliveries: who, node, item, message id."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._real = real()
        self._elements, self._attributes, self._values = names()
        self._tags = sorted(TAGS)  # the same in every process, or a seed would say nothing
        self._count = 0
        self.held: deque[tuple[str, str, str, str]] = deque(maxlen=20)

    def next(self) -> etree._Element:
        """Return the next stanza."""
        self._count += 1
        kinds = (self._work, self._spoilt, self._grown, self._presence, self._other)
        (kind,) = self._random.choices(kinds, (25, 40, 20, 6, 9))
        made = kind()
        if made.tag == f"{{{ACCEPT}}}iq":
            # an id there always is (RFC 6120 8.1.3)
            made.set("id", f"n{self._count}{self._pick(('', '', '', ' &<é'))}")
            if self._maybe(0.02):
                made.set("to", self._pick((f"{SERVICE}/x", f"jobs@{SERVICE}")))
        return made

    # --- what makes sense ---

    def _work(self) -> etree._Element:
        """Return what a publisher or a worker sends, right in every word, about real items."""
        verb = self._pick(("publish", "publish", "subscribe", "settle", "settle", "touch", "items"))
        if verb == "subscribe":
            jid = self._pick(WORKERS)
            options = self._element(f"{{{ns.PUBSUB}}}options")
            options.append(window(self._pick(("1", "2", "5"))))
            wanted = self._element(f"{{{ns.PUBSUB}}}subscribe", node=self._node(), jid=jid)
            return self._ask(jid, wanted, options)
        if verb == "publish":
            item = self._element(f"{{{ns.PUBSUB}}}item", id=f"i{self._random.randrange(30)}")
            item.append(self._element(f"{{urn:work}}{self._pick(('job', 'task'))}"))
            publish = self._element(f"{{{ns.PUBSUB}}}publish", node=self._pick(("jobs", "plain")))
            publish.append(item)
            return self._ask("etl@localhost/spark", publish)
        who, node, item, _ = self._held()
        if verb == "touch":
            touch = self._element(f"{{{ns.PUBQUEUE}}}touch", node=node, seconds="20")
            touch.append(self._element(f"{{{ns.PUBQUEUE}}}item", id=item))
            return self._wrap(who, "set", touch)
        if verb == "items":
            return self._ask(who, self._element(f"{{{ns.PUBSUB}}}items", node=node), kind="get")
        space = self._pick((ns.PUBSUB, ns.QUEUEING))
        name = "retract" if space == ns.PUBSUB else "unlock"
        settle = self._element(f"{{{space}}}{name}", node=node)
        settle.append(self._element(f"{{{space}}}item", id=item))
        outcome = self._element(f"{{{ns.PUBQUEUE}}}outcome", type=self._pick(("failed", "reject")))
        return self._ask(who, settle, *[outcome] * (name == "unlock" and self._maybe(0.4)))

    def _ask(self, who: str, *children: etree._Element, kind: str = "set") -> etree._Element:
        pubsub = self._element(f"{{{ns.PUBSUB}}}pubsub")
        pubsub.extend(children)
        return self._wrap(who, kind, pubsub)

    def _wrap(self, who: str, kind: str, child: etree._Element) -> etree._Element:
        iq = stanza("iq", who, type=kind)
        iq.append(child)
        return iq

    def _held(self) -> tuple[str, str, str, str]:
        if self.held and self._maybe(SENSIBLE):
            return self._pick(self.held)
        return self._pick(PEOPLE), self._node(), self._pick(ITEMS), "pq-1-1"

    # --- what made sense before it was spoilt ---

    def _spoilt(self) -> etree._Element:
        """Return a stanza of a scenario, about nodes and people that there are, with some changes."""
        made = deepcopy(self._pick(self._real))
        made.set("from", self._pick(PEOPLE))
        made.set("to", SERVICE)
        for one in made.iter("*"):
            for name in ("node", "id", "jid"):
                if name in one.attrib and self._maybe(0.8):
                    one.set(name, self._usual(name, made.get("from", "")))
        for _ in range(self._pick((0, 0, 1, 1, 2, 4))):
            self._spoil(made)
        return made

    def _spoil(self, top: etree._Element) -> None:
        places = list(top.iter("*"))[1:12]
        if not places:
            top.append(self._tree(2))
            return
        place = self._pick(places)
        spoil = self._pick(
            (self._drop, self._double, self._rename, self._move, self._graft, self._say, self._word)
        )
        spoil(place)
        if self._maybe(0.05):
            top.set("type", self._pick(("get", "set", "result", "error", "odd")))

    def _drop(self, place: etree._Element) -> None:
        parent = place.getparent()
        if parent is not None:
            parent.remove(place)

    def _double(self, place: etree._Element) -> None:
        place.addnext(deepcopy(place))

    def _rename(self, place: etree._Element) -> None:
        place.tag = self._tag()

    def _move(self, place: etree._Element) -> None:
        parent = place.getparent()
        if parent is not None and parent.getparent() is not None:
            parent.addnext(place)

    def _graft(self, place: etree._Element) -> None:
        other = self._pick(self._real)
        place.append(deepcopy(self._pick(list(other.iter("*"))[1:] or [self._tree(1)])))

    def _say(self, place: etree._Element) -> None:
        place.text = self._pick(ODD)

    def _word(self, place: etree._Element) -> None:
        name = self._pick((*place.keys(), self._pick(self._attributes)))
        if self._maybe(0.3):
            place.attrib.pop(name, None)
        else:
            place.set(name, self._usual(name, "") if self._maybe(0.4) else self._pick(ODD))

    # --- what never made sense ---

    def _grown(self) -> etree._Element:
        """Return a request of random words."""
        iq = stanza("iq", self._pick(PEOPLE), type=self._pick(("get", "set")))
        for _ in range(self._pick((0, 1, 1, 1, 1, 1, 1, 1, 2))):
            iq.append(self._tree(4, root=self._maybe(0.7)))
        return iq

    def _tree(self, depth: int, *, root: bool = False) -> etree._Element:
        roots = (f"{{{ns.PUBSUB}}}pubsub", f"{{{ns.OWNER}}}pubsub")
        made = self._element(self._pick(roots) if root else self._tag())
        for _ in range(self._pick((0, 1, 1, 2, 3))):
            self._word(made)
        for _ in range(self._random.randrange(4) if depth else 0):
            made.append(self._tree(depth - 1))
        if self._maybe(0.1):
            self._say(made)
        return made

    # --- what is no request ---

    def _presence(self) -> etree._Element:
        made = stanza("presence", self._pick(PEOPLE))
        if kind := self._pick(PRESENCES):
            made.set("type", kind)
        if self._maybe(0.2):
            made.append(self._tree(2))
        return made

    def _other(self) -> etree._Element:
        """Return a message, above all a delivery that comes back, or an answer that nobody awaits."""
        who, _, _, message = self._held()
        if self._maybe(0.3):
            made = stanza("iq", who, type=self._pick(("result", "error", "odd")))
        else:
            made = stanza("message", who, id=message)
            made.set("type", self._pick(("error", "error", "error", "normal", "headline", "odd")))
        if self._maybe(0.8):
            error = self._element(f"{{{ACCEPT}}}error", type=self._pick(("cancel", "wait", "odd")))
            error.append(self._element(f"{{{ns.STANZAS}}}{self._pick(CONDITIONS)}"))
            made.append(error)
        if self._maybe(0.3):
            made.append(self._tree(2))
        return made

    # --- words ---

    def _usual(self, name: str, sender: str) -> str:
        match name:
            case "node" | "to":
                return self._node()
            case "id":
                return self._held()[2]
            case "jid":
                return sender if sender and self._maybe(0.7) else self._pick(PEOPLE)
            case _:
                return self._pick(self._values)

    def _node(self) -> str:
        return self._pick(NODES)

    def _tag(self) -> str:
        if self._maybe(0.5):
            return self._pick(self._elements)
        space, _, name = self._pick(self._tags).rpartition(" ")
        return f"{{{space}}}{name}" if space else name

    def _element(self, tag: str, **attributes: str) -> etree._Element:
        return etree.Element(tag, attributes)

    def _pick(self, among: Sequence[T]) -> T:
        return self._random.choice(among)

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance
