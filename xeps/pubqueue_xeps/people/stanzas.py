"""The words of questions and answers in XML: messages as they are sent, and what arrives, as values.

Pure. What is sent can be read by every client: a text. Beside it are the choices as actions (XEP-0439) and, for clients that show
forms, as a form (XEP-0004).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.people.answers import Heard
from pubqueue_xeps.people.questions import message_id, plain
from pubqueue_xeps.wire.ns import CAPS, CLIENT, DATA, DELAY, DISCO_INFO, HINTS, ROSTER, RSM, STANZAS
from pubqueue_xeps.wire.requests import IqRequest
from pubqueue_xeps.wire.times import read_time
from pubqueue_xeps.wire.xml_text import attributes, content, quote

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

ACTIONS: Final = "urn:xmpp:tmp:quick-response"
ARCHIVE: Final = "urn:xmpp:mam:2"
FALLBACK: Final = "urn:xmpp:fallback:0"
FORWARD: Final = "urn:xmpp:forward:0"
MUC: Final = "http://jabber.org/protocol/muc"
MUC_USER: Final = f"{MUC}#user"
OURS: Final = "urn:x-pubqueue:0#people"
REACTIONS: Final = "urn:xmpp:reactions:0"
REPLY: Final = "urn:xmpp:reply:0"
STANZA_IDS: Final = "urn:xmpp:sid:0"

IQ: Final = f"{{{CLIENT}}}iq"
MESSAGE: Final = f"{{{CLIENT}}}message"
PRESENCE: Final = f"{{{CLIENT}}}presence"

MAX_BODY: Final = 4000
"""Characters of a message that are looked at; the rest is the rest of a reason."""


# What is sent.


def question(
    to: str, round_id: str, part: object, body: str, choices: Sequence[str], *, form: bool
) -> bytes:
    """Return a question, with its choices as actions, and perhaps as a form."""
    actions = "".join(
        f"<action xmlns='{ACTIONS}' id={quote(message_id(round_id, f'c{number}'))} label={quote(plain(one))}/>"
        for number, one in enumerate(choices)
    )
    fields = _form(round_id, body, choices) if form else ""
    return message(to, message_id(round_id, part), body, round_id, f"{actions}{fields}")


def message(to: str, name: str, body: str, thread: str, beside: str = "") -> bytes:
    """Return a message to a person, or to a room: that is a bare JID with a kind in front, as `room:` and its JID."""
    kind, address = ("groupchat", to.removeprefix(ROOM)) if to.startswith(ROOM) else ("chat", to)
    kept = f"<store xmlns='{HINTS}'/><origin-id xmlns='{STANZA_IDS}' id={quote(name)}/>"
    return (
        f"<message to={quote(address)} id={quote(name)} type='{kind}'><body>{content(body)}</body>"
        f"<thread>{content(thread)}</thread>{beside}{kept}</message>"
    ).encode()


ROOM: Final = "room:"
"""How the JID of a room differs from that of a person, in what an item carries too."""


def _form(round_id: str, body: str, choices: Sequence[str]) -> str:
    options = "".join(
        f"<option label={quote(plain(one))}><value>{number}</value></option>"
        for number, one in enumerate(choices)
    )
    head, _, rest = body.partition("\n")
    return (
        f"<x xmlns='{DATA}' type='form'><title>{content(head)}</title><instructions>{content(rest)}</instructions>"
        f"<field type='hidden' var='FORM_TYPE'><value>{OURS}</value></field>"
        f"<field type='hidden' var='question'><value>{round_id}</value></field>"
        f"<field type='list-single' var='answer' label='Answer'><required/>{options}</field>"
        f"<field type='text-single' var='reason' label='Reason'/></x>"
    )


def presence(to: str | None = None, kind: str | None = None, inner: str = "") -> bytes:
    """Return a presence."""
    return f"<presence{attributes(to=to, type=kind)}>{inner}</presence>".encode()


def entering(room: str, nick: str) -> bytes:
    """Return the presence that enters a room, and asks for none of its history."""
    inner = f"<x xmlns='{MUC}'><history maxstanzas='0'/></x>"
    return presence(f"{room}/{nick}", inner=inner)


def information(iq: Element) -> bytes:
    """Answer what a client asks of the bot (XEP-0030)."""
    features = "".join(f"<feature var='{one}'/>" for one in (DISCO_INFO, ACTIONS, REACTIONS, REPLY))
    inner = f"<identity category='client' type='bot' name='pubqueue'/>{features}"
    return (
        f"<iq type='result' to={quote(iq.get('from', ''))} id={quote(iq.get('id', ''))}>"
        f"<query xmlns='{DISCO_INFO}'>{inner}</query></iq>"
    ).encode()


ROSTER_WANTED: Final = IqRequest("get", "the roster", f"<query xmlns='{ROSTER}'/>")
CLIENT_WANTED: Final = IqRequest("get", "what a client can do", f"<query xmlns='{DISCO_INFO}'/>")


def archive_wanted(query: str, with_: str, start: str, after: str | None) -> IqRequest:
    """Ask the archive of the bot's own account for a page of the conversation with a person (XEP-0313)."""
    fields = {"FORM_TYPE": ARCHIVE, "with": with_, "start": start}
    form = "".join(
        f"<field var='{name}'><value>{content(value)}</value></field>"
        for name, value in fields.items()
    )
    place = "" if after is None else f"<after>{content(after)}</after>"
    inner = (
        f"<query xmlns='{ARCHIVE}' queryid={quote(query)}><x xmlns='{DATA}' type='submit'>{form}</x>"
        f"<set xmlns='{RSM}'><max>{PAGE}</max>{place}</set></query>"
    )
    return IqRequest("set", "a page of the archive", inner)


PAGE: Final = 100


# What arrives.


@dataclass(frozen=True, slots=True)
class Subject:
    """A presence: of whom, of what type, and what it says."""

    sender: str
    type: str
    show: str
    priority: int
    caps: str
    codes: frozenset[str]
    real: str
    """The real JID of a person in a room, if it is shown."""
    member: bool
    """Whether it is a member of the room, or more."""
    moderator: bool
    in_room: bool


def read_presence(stanza: Element) -> Subject:
    """Read a presence."""
    user = stanza.find(f"{{{MUC_USER}}}x")
    item = None if user is None else user.find(f"{{{MUC_USER}}}item")
    caps = stanza.find(f"{{{CAPS}}}c")
    priority = (stanza.findtext(f"{{{CLIENT}}}priority") or "0").strip()
    codes = () if user is None else user.iterfind(f"{{{MUC_USER}}}status")
    own = {} if item is None else item.attrib
    return Subject(
        sender=stanza.get("from", ""),
        type=stanza.get("type", ""),
        show=(stanza.findtext(f"{{{CLIENT}}}show") or "").strip(),
        priority=int(priority) if priority.lstrip("+-").isdecimal() and len(priority) < 5 else 0,  # noqa: PLR2004  -128 to 127
        caps="" if caps is None else f"{caps.get('node', '')}#{caps.get('ver', '')}",
        codes=frozenset(one.get("code", "") for one in codes),
        real=own.get("jid", ""),
        member=own.get("affiliation") in ("member", "admin", "owner"),
        moderator=own.get("role") == "moderator",
        in_room=user is not None,
    )


def condition(stanza: Element) -> str:
    """Return the condition of an error."""
    error = stanza.find(f"{{{CLIENT}}}error")
    found = (
        () if error is None else (one.tag for one in error if one.tag.startswith(f"{{{STANZAS}}}"))
    )
    return next((one.rpartition("}")[2] for one in found if not one.endswith("}text")), "error")


def read_message(stanza: Element, sender: str, now: float, room: str = "") -> Heard:
    """Read a message of a person, as far as it can be an answer; `now` is its time, unless a server says when it came."""
    reply = stanza.find(f"{{{REPLY}}}reply")
    action = stanza.find(f"{{{ACTIONS}}}action-selected")
    reactions = stanza.find(f"{{{REACTIONS}}}reactions")
    stamp = _stamp(stanza)
    body = stanza.findtext(f"{{{CLIENT}}}body") or ""
    return Heard(
        sender=sender,
        room=room,
        at=min(now, stamp or now),
        stamped=stamp is not None,
        id=stanza.get("id", ""),
        body=_without_quotes(stanza, body)[:MAX_BODY],
        action="" if action is None else action.get("id", ""),
        reply_to="" if reply is None else reply.get("id", ""),
        reaction_to="" if reactions is None else reactions.get("id", ""),
        reactions=() if reactions is None else tuple(one.text or "" for one in reactions)[:20],
        form=_submitted(stanza),
        thread=stanza.findtext(f"{{{CLIENT}}}thread") or "",
    )


def is_delayed(stanza: Element) -> bool:
    """Return whether a server has kept a message, as a room does with its history."""
    return stanza.find(f"{{{DELAY}}}delay") is not None


def _stamp(stanza: Element) -> float | None:
    delay = stanza.find(f"{{{DELAY}}}delay")
    try:
        return None if delay is None else read_time(delay.get("stamp", "")).timestamp()
    except (ValueError, OverflowError):
        return None


def _without_quotes(stanza: Element, body: str) -> str:
    """Return a text without the text that it replies to, which a client repeats for others (XEP-0461 3.1)."""
    for fallback in stanza.iterfind(f"{{{FALLBACK}}}fallback"):
        part = fallback.find(f"{{{FALLBACK}}}body")
        if fallback.get("for") != REPLY or part is None:
            continue
        start, end = part.get("start", "0"), part.get("end", "0")
        if start.isdecimal() and end.isdecimal() and int(start) <= int(end) <= len(body):
            body = body[: int(start)] + body[int(end) :]
    lines = [line for line in body.splitlines() if not line.lstrip().startswith(">")]
    return "\n".join(lines).strip()


def _submitted(stanza: Element) -> dict[str, str] | None:
    form = stanza.find(f"{{{DATA}}}x")
    if form is None or form.get("type") != "submit":
        return None
    fields = form.iterfind(f"{{{DATA}}}field")
    return {one.get("var", ""): one.findtext(f"{{{DATA}}}value") or "" for one in fields}


def stanza_id(stanza: Element, room: str) -> str:
    """Return the id that a room gave a message (XEP-0359)."""
    found = stanza.iterfind(f"{{{STANZA_IDS}}}stanza-id")
    return next((one.get("id", "") for one in found if one.get("by") == room), "")


def archived(stanza: Element) -> tuple[str, Element, float] | None:
    """Return the query that a message of the archive belongs to, the message that is in it, and when it was sent; None for another stanza."""
    result = stanza.find(f"{{{ARCHIVE}}}result")
    forwarded = None if result is None else result.find(f"{{{FORWARD}}}forwarded")
    if result is None or forwarded is None:
        return None
    inner = forwarded.find(MESSAGE)
    at = _stamp(forwarded)
    return None if inner is None or at is None else (result.get("queryid", ""), inner, at)


def page_end(iq: Element) -> tuple[str | None, bool]:
    """Return where the next page of the archive begins, and whether this was the last."""
    fin = iq.find(f"{{{ARCHIVE}}}fin")
    if fin is None:
        return None, True
    last = fin.findtext(f"{{{RSM}}}set/{{{RSM}}}last")
    return last, last is None or fin.get("complete") in ("true", "1")


def shows_forms(iq: Element) -> bool:
    """Return whether a client shows forms, by its features."""
    features = iq.iterfind(f"{{{DISCO_INFO}}}query/{{{DISCO_INFO}}}feature")
    return any(one.get("var") == DATA for one in features)


def subscriptions(iq: Element) -> dict[str, str]:
    """Return the subscription of each contact of the roster."""
    contacts = iq.iterfind(f"{{{ROSTER}}}query/{{{ROSTER}}}item")
    return {one.get("jid", ""): one.get("subscription", "none") for one in contacts}
