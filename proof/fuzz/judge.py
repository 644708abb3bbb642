"""What the face may say to a stanza, and nothing else."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import TYPE_CHECKING, Final

from harness.servers.stub_server import ACCEPT, on_a_stream
from harness.stanzas.schema import validate_own

from proof.fuzz.grow import Grower
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from lxml import etree

    from proof.fuzz.rig import Rig

    Address = tuple[str | None, str | None, str | None]
    """The id of a request, its sender, and its addressee."""

IQ: Final = f"{{{ACCEPT}}}iq"
MESSAGE: Final = f"{{{ACCEPT}}}message"
DELIVER: Final = f"{{{ns.QOS}}}deliver"
OWN: Final = {
    f"{{{ns.QOS}}}acknowledged",
    f"{{{ns.QOS}}}assured",
    DELIVER,
    f"{{{ns.DISCO_INFO}}}query",
}
"""Requests that the face may send."""
CARRIED: Final = f"{{{ns.QOS}}}*/{{*}}message"
PUBLISH: Final = f"{{{ns.PUBSUB}}}pubsub/{{{ns.PUBSUB}}}publish"
ERROR: Final = f"{{{ACCEPT}}}error"
DEFINED: Final = f"{{{ns.STANZAS}}}"
EVENT_ITEM: Final = f"{{{ns.EVENT}}}event/{{{ns.EVENT}}}items/{{{ns.EVENT}}}item"
OFFER: Final = f"{{{ns.PUBSUB}}}pubsub/{{{ns.PUBSUB}}}options/{{{ns.DATA}}}x[@type='form']"
ENTRY: Final = f"{{{ns.OWNER}}}pubsub/*[@node]/*[@jid]"
"""Of the affiliations or subscriptions of a node."""
RENEWED: Final = 500
"""Stanzas after which the nodes are made anew: by then somebody has closed or deleted most of them."""


class FaceFaultError(AssertionError):
    """The face has done what it must not; the message has the stanzas."""

    def __init__(
        self, what: str, stanzas: Sequence[etree._Element], said: Sequence[object]
    ) -> None:
        asked = "\n".join(map(on_a_stream, stanzas))
        answered = "\n".join(map(str, said))
        super().__init__(f"{what}\n--- asked:\n{asked}\n--- and heard:\n{answered}")


class Fuzzer:
    """Feeds and judges; `counts` says how often the face said what."""

    def __init__(self, rig: Rig, random: Random) -> None:
        self._rig = rig
        self._random = random
        self.grower = Grower(random)
        self._fed = 0
        self._published: set[Address] = set()
        self.counts: Counter[str] = Counter()
        self.waits: list[float] = []
        """Seconds that each round of the honest client took."""

    async def run(self, stanzas: int) -> None:
        """Feed at least so many stanzas, mostly one by one, now and then many at once."""
        end = self._fed + stanzas
        renewed = 0
        while self._fed < end:
            if self._fed >= renewed:
                await self._rig.renew()
                if self._fed:
                    self.waits.append(await self._rig.work())
                renewed = self._fed + RENEWED
            many = self._random.randrange(2, 40) if self._random.random() < 0.01 else 1
            await self.feed([self.grower.next() for _ in range(many)])
            if self._random.random() < 0.02:
                self._remember(await self._rig.wait(self._random.choice((2, 40))))

    async def feed(self, stanzas: Sequence[etree._Element]) -> None:
        """Feed these, and judge what comes of it."""
        self._fed += len(stanzas)
        asked = [one for one in stanzas if one.tag == IQ and one.get("type") in {"get", "set"}]
        self._published.update(address for one in stanzas for address in _publishes(one))
        before, noting = self._rig.version(), self._rig.notes_something()
        said = await self._rig.feed(stanzas, len(asked))
        answers = [one for one in said if one.tag == IQ and not _is_own_request(one)]
        wrong = [*self._rig.complaints(), *_mismatch(asked, answers), *map(_misshapen, said)]
        wrong += map(self._unexpected, said)
        alone = len(stanzas) == len(answers) == 1
        refused = alone and _is_refused(stanzas[0], answers[0])
        # what may go out again by now goes out with whatever comes next
        delivered = any(one.find(EVENT_ITEM) is not None for one in said)
        if refused and not noting and not delivered and self._rig.version() != before:
            wrong.append("a refusal has written to the store")
        if not self._rig.up:
            wrong.append("the stream is down")
        if any(wrong):
            raise FaceFaultError(
                "; ".join(filter(None, wrong)), stanzas, list(map(on_a_stream, said))
            )
        self._count(stanzas, answers, said)
        self._remember(said)

    def _unexpected(self, said: etree._Element) -> str:
        """Return what is wrong with an error that is no answer to an IQ: it may only refuse a publish by message."""
        if said.tag == IQ or said.get("type") != "error":
            return ""
        refused = said.get("id"), said.get("to"), said.get("from")
        return "" if refused in self._published else "an error to what was no request"

    def _count(
        self,
        stanzas: Sequence[etree._Element],
        answers: Sequence[etree._Element],
        said: Sequence[etree._Element],
    ) -> None:
        self.counts["no answer, for it was no request"] += len(stanzas) - len(answers)
        self.counts["messages and presence"] += len(said) - len(answers)
        self.counts.update(map(_name, answers))

    def _remember(self, said: Sequence[etree._Element]) -> None:
        for message in said:
            for item in message.iterfind(EVENT_ITEM):
                node, name = item.getparent().get("node"), item.get("id")
                who, attempt = message.get("to"), message.get("id")
                if None not in {node, name, who, attempt}:
                    self.grower.held.append((who, node, name, attempt))


def _name(answer: etree._Element) -> str:
    error = answer.find(ERROR)
    return "result" if error is None else f"error: {_condition(error)}"


def _condition(error: etree._Element) -> str:
    defined = [child for child in error if child.tag.startswith(DEFINED)]
    return next((c.tag.removeprefix(DEFINED) for c in defined if not c.tag.endswith("}text")), "")


def _is_refused(asked: etree._Element, answer: etree._Element) -> bool:
    """Say whether nothing of what was asked may be done.

    Of several affiliations or subscriptions those may be refused that the error names, and the others made (XEP-0060
    8.8.2.4, 8.9.2.4). The answer to a deliver is remembered, also if its message is refused.
    """
    if answer.get("type") != "error" or asked.find(DELIVER) is not None:
        return False
    refused, all_of_them = (len(one.findall(ENTRY)) for one in (answer, asked))
    return not 0 < refused < all_of_them


def _mismatch(asked: Sequence[etree._Element], answers: Sequence[etree._Element]) -> list[str]:
    """Say how the answers are not exactly one to each request, to who asked, from who was asked."""
    wanted = Counter(map(_address, asked))
    got = Counter((iq.get("id"), iq.get("to"), iq.get("from")) for iq in answers)
    if wanted == got:
        return []
    return [f"not answered: {list(wanted - got)}, answered for nothing: {list(got - wanted)}"]


def _address(asked: etree._Element) -> Address:
    return asked.get("id"), asked.get("from"), asked.get("to")


def _publishes(stanza: etree._Element) -> list[Address]:
    """Return the addresses of a message that publishes, or that an IQ carries, which may be without an id of its own."""
    top = _address(stanza)
    if stanza.tag == MESSAGE and stanza.get("type") != "error":
        return [top] if stanza.find(PUBLISH) is not None else []
    carried = [one.get("id") for one in stanza.iterfind(CARRIED)]
    return [(name or top[0], *top[1:]) for name in carried]


def _is_own_request(said: etree._Element) -> bool:
    """Return whether it is a delivery that has to be answered, or what comes before one: the question for features."""
    return said.get("type") in {"get", "set"} and len(said) == 1 and said[0].tag in OWN


def _misshapen(said: etree._Element) -> str:
    """Say what is wrong with a stanza of the face; nothing if all is well."""
    kind = said.get("type")
    if kind == "error":
        error = said.find(ERROR)
        if error is None or not _condition(error):
            return "an error without its condition"
        if _condition(error) == "internal-server-error":
            return "an internal error"
        if error.find(f"{{{ns.ERRORS}}}configuration-required") is not None:
            return "" if len(said.findall(OFFER)) == 1 else "not one form is offered"
    try:
        validate_own(_without_echo(said))
    except AssertionError as problem:
        return str(problem)
    return ""


def _without_echo(said: etree._Element) -> etree._Element:
    """Leave out what an error repeats of the request: that is the asker's own, and may look like anything."""
    if said.get("type") != "error":
        return said
    copy = deepcopy(said)
    for echo in [child for child in copy if child.tag != ERROR]:
        copy.remove(echo)
    return copy
